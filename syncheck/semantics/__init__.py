"""The semantics of torch, CUDA and NCCL, with sources; shared by the simulator, the CUDA backend and the linter."""
