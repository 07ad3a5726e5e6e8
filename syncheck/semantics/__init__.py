"""What torch, CUDA and NCCL do: each fact once, with its source, for the simulator, the CUDA half and the linter."""
