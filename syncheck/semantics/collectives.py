"""Collectives of torch.distributed: names, reads and writes, and when the host waits for one.

Source:
    torch/csrc/distributed/c10d/Ops.cpp and ProcessGroupNCCL.cpp; torch/distributed/distributed_c10d.py.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NAMESPACES = frozenset({"c10d", "_c10d_functional"})
"""Namespaces of communicating operators."""


def is_functional(operator: str) -> bool:
    """Return whether an operator is a functional collective, which returns a tensor instead of a work handle."""
    return operator.startswith("_c10d_functional::")


# -- operators

WRITING = frozenset("allreduce_ allreduce_coalesced_ reduce_ broadcast_ recv_ recv_any_source_".split())
"""Operators whose argument `tensors` is written. Source: Ops.cpp, the schemas and the implementations."""
READING = frozenset({"send"})
"""Operators whose argument `tensors` is only read."""

ROOTED = {"broadcast_": False, "reduce_": True}
"""Operators that write on some ranks only -> whether it is the root that writes; the others only read.

Source: NCCL, src/device/broadcast.h and reduce.h: the root of a broadcast in place, and all but the root of a
reduction, only send. `broadcast` and `reduce` of ProcessGroupNCCL.cpp are in place.
"""

RECEIVING = frozenset({"recv_"})
"""Operators that receive a message from a known rank."""

POINT_TO_POINT = frozenset("send recv_ recv_any_source_".split())
"""Messages: torch itself records their tensors on the stream, so that they may be freed before the wait.

Source: ProcessGroupNCCL.cpp, `pointToPoint`, `recordStream`.
"""

FLAT = {
    "_allgather_base_": "output tensor size must be equal to world_size times input tensor size",
    "allgather_into_tensor_coalesced_": "output tensor size must be equal to world_size times input tensor size",
    "_reduce_scatter_base_": "input tensor must be the same size as output size times world size",
    "reduce_scatter_tensor_coalesced_": "input tensor must be the same size as output size times world size",
}
"""Operators that check only the number of elements, not the shapes, with their error for a wrong number.

Source: ProcessGroupNCCL.cpp, `_allgather_base` and `_reduce_scatter_base`.
"""

BATCH = "c10d::batch_isend_irecv"
"""What a message is reported as, once more, if another one of its batch uses the same memory."""

EQUAL_ARGUMENTS = {
    "allgather_": "output_tensors", "allgather_coalesced_": "output_lists", "scatter_": "output_tensors",
    "_allgather_base_": "input_tensor", "_reduce_scatter_base_": "input_tensor", "reduce_scatter_": "input_tensors",
    "gather_": "input_tensors", "allgather_into_tensor_coalesced_": "inputs",
    "reduce_scatter_tensor_coalesced_": "inputs",
}  # fmt: skip
"""The argument whose tensors must have the same type and shape on all ranks; `tensors` for any other operator.

Tensors of a list may differ from each other, but the list as a whole must be the same on all ranks.
Source: ProcessGroupNCCL.cpp, the checks of each collective.
"""

GROUP_METHODS = """allreduce allreduce_coalesced broadcast reduce allgather _allgather_base allgather_coalesced
    allgather_into_tensor_coalesced reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced alltoall
    alltoall_base gather scatter send recv recv_anysource barrier all_gather_single reduce_scatter_single
    all_to_all_single all_gather_single_coalesced reduce_scatter_single_coalesced""".split()
"""The methods of `ProcessGroup` that start a collective."""

_NAMES = {
    "allreduce_": "all_reduce", "allreduce_coalesced_": "all_reduce_coalesced", "allgather_": "all_gather",
    "_allgather_base_": "all_gather_into_tensor", "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor", "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor", "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single", "send": "isend", "recv_": "irecv", "recv_any_source_": "irecv",
}  # fmt: skip


def collective_name(operator: str) -> str:
    """Return the torch.distributed name of a collective operator; "" for any other operator."""
    namespace, _, base = operator.partition("::")
    if namespace not in NAMESPACES:
        return ""
    return _NAMES.get(base, base.strip("_"))


_RENAMED = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}
"""Name before torch 2.13 -> name since, for functions that call the same operator."""


def as_called(text: str, sources: Iterable[str]) -> str:
    """Return a text about collectives with the names by which lines of the program call them."""
    for name, renamed in _RENAMED.items():
        if name in text and any(renamed in source for source in sources):
            text = text.replace(name, renamed)
    return text


# -- functions of torch.distributed

Parameter = tuple[int, str]
"""(position, name)."""


class Collective(NamedTuple):
    """A function of torch.distributed that starts a collective.

    Attributes:
        operator: the operator that it calls.
        writes: the parameters that are written.
        reads: the parameters that are only read.
        always_asynchronous: it always returns a handle, without `async_op`.
    """

    operator: str
    writes: tuple[Parameter, ...] = ()
    reads: tuple[Parameter, ...] = ()
    always_asynchronous: bool = False


FUNCTIONS = {
    "all_reduce": Collective("c10d::allreduce_", ((0, "tensor"),)),
    "broadcast": Collective("c10d::broadcast_", ((0, "tensor"),)),
    "reduce": Collective("c10d::reduce_", ((0, "tensor"),)),
    "all_gather": Collective("c10d::allgather_", ((0, "tensor_list"),), ((1, "tensor"),)),
    "all_gather_into_tensor": Collective("c10d::_allgather_base_", ((0, "output_tensor"),), ((1, "input_tensor"),)),
    "all_gather_single": Collective("c10d::_allgather_base_", ((0, "output_tensor"),), ((1, "input_tensor"),)),
    "reduce_scatter": Collective("c10d::reduce_scatter_", ((0, "output"),), ((1, "input_list"),)),
    "reduce_scatter_tensor": Collective("c10d::_reduce_scatter_base_", ((0, "output"),), ((1, "input"),)),
    "reduce_scatter_single": Collective("c10d::_reduce_scatter_base_", ((0, "output"),), ((1, "input"),)),
    "all_to_all": Collective("c10d::alltoall_", ((0, "output_tensor_list"),), ((1, "input_tensor_list"),)),
    "all_to_all_single": Collective("c10d::alltoall_base_", ((0, "output"),), ((1, "input"),)),
    "gather": Collective("c10d::gather_", ((1, "gather_list"),), ((0, "tensor"),)),
    "scatter": Collective("c10d::scatter_", ((0, "tensor"),), ((1, "scatter_list"),)),
    "send": Collective("c10d::send", (), ((0, "tensor"),)),
    "recv": Collective("c10d::recv_", ((0, "tensor"),)),
    "isend": Collective("c10d::send", (), ((0, "tensor"),), always_asynchronous=True),
    "irecv": Collective("c10d::recv_", ((0, "tensor"),), always_asynchronous=True),
    "barrier": Collective("c10d::barrier"),
}
"""The torch.distributed functions that the linter models. Source: torch/distributed/distributed_c10d.py.

Since torch 2.13, `all_gather_single` and `reduce_scatter_single` are the names of `all_gather_into_tensor` and
`reduce_scatter_tensor`, which are deprecated.
"""


# -- waiting


def makes_host_wait(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether `Work.wait`, called with these arguments, makes the host wait, too.

    Source:
        ProcessGroupNCCL.cpp, `WorkNCCL::synchronizeInternal`: with a timeout, or if TORCH_NCCL_BLOCKING_WAIT requests
        it.
    """
    timeout = args[0] if args else kwargs.get("timeout")
    names = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
    return bool(timeout) or any(os.environ.get(name, "").upper() in {"1", "Y", "YES", "TRUE", "T"} for name in names)
