"""Virtual GPUs: an ordinary PyTorch program runs with real values on the CPU, with CUDA stream semantics."""
