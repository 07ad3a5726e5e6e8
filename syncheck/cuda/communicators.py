"""Creation of NCCL communicators ahead of the first collective of a process group.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `initNCCLComm`: exchanges an identifier through the store and
    calls `ncclCommInitRankConfig`, which blocks the host; `eagerConnectSingleDevice`: the same without a collective.
"""

from typing import Any

import torch

_BETWEEN_TWO = frozenset({"c10d::send", "c10d::recv_", "c10d::recv_any_source_"})
"""Operators that use a communicator of two ranks. Source: `ProcessGroupNCCL::pointToPoint`."""


def connect(name: str, group: Any, device: int) -> None:
    """Create the communicator of a collective, if the collective itself would create it.

    All ranks of the group must create it, either here or in the collective.

    Args:
        name: the operator, such as "c10d::allreduce_".
        group: its process group.
        device: index of the GPU that it runs on.
    """
    if name in _BETWEEN_TWO:
        return
    backend = group._get_backend(torch.device("cuda", device))
    is_lazy = getattr(backend, "bound_device_id", None) is None
    if is_lazy and hasattr(backend, "_is_initialized") and not backend._is_initialized():
        backend.eager_connect_single_device(torch.device("cuda", device))
