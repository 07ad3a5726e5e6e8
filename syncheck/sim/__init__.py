"""Virtual GPUs: an unmodified PyTorch program runs on the CPU with real values and CUDA stream semantics."""
