"""Batches of messages whose operations use the same memory.

The operations of one `batch_isend_irecv` run at the same time: one that sends what another one receives may send the
old contents, although both are waited for together.

Source:
    NCCL user guide, "Point-to-point communication": calls within a group "can be seen as progressing independently".
    Seen on two H200s with NCCL: ranks that receive 64 MiB into the buffer that the same batch sends receive wrong data
    in 39 and 42 of 50 rounds.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch

from syncheck.hb.ids import BY_TORCH, UNKNOWN_SITE, NamedKind, StreamId
from syncheck.instrument.c10d import c10d
from syncheck.instrument.gpus import Gpus
from syncheck.instrument.patching import Patches
from syncheck.semantics.collectives import BATCH


class Messages:
    """Reports operations of a batch that run beside the others.

    Args:
        gpus: reports what they do.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._beside: dict[int, StreamId] = {}  # device -> the stream of such operations
        self._begun: list[int] = []

    def begin(self, tensor: torch.Tensor, *, is_write: bool) -> None:
        """Report an operation that starts with the batch.

        Args:
            tensor: the tensor that it sends or receives.
            is_write: whether it receives.
        """
        gpus = self._gpus
        device = gpus.device_of(tensor)
        if device < 0 or not gpus.is_checking():
            return
        stream = self._stream(device)
        with gpus.monitor() as monitor:
            monitor.wait_stream(stream, gpus.current(device), UNKNOWN_SITE, BY_TORCH)
        gpus.launch(BATCH, stream, [(tensor, is_write)])
        with gpus.monitor() as monitor:
            monitor.collective(stream, BATCH, gpus.site())
        self._begun.append(device)

    def end(self) -> None:
        """Let the current stream wait for these operations, since the program waits for the whole batch."""
        while self._begun:
            device = self._begun.pop()
            with self._gpus.monitor() as monitor:
                monitor.wait_stream(self._gpus.current(device), self._beside[device], UNKNOWN_SITE, BY_TORCH)

    def _stream(self, device: int) -> StreamId:
        if device not in self._beside:
            stream = self._beside[device] = self._gpus.new_stream(device)
            with self._gpus.monitor() as monitor:
                monitor.name(NamedKind.STREAM, stream, "nccl, beside")
        return self._beside[device]


def hook_batches(patches: Patches, messages: Messages) -> None:
    """Hook `batch_isend_irecv`, so that operations of one batch on the same memory are reported."""
    original: Callable[..., Any] = c10d.batch_isend_irecv

    @wraps(original)
    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        together = _sharing(p2p_op_list) if isinstance(p2p_op_list, list) else []
        for operation in together:
            messages.begin(operation.tensor, is_write=_receives(operation))
        try:
            return original(p2p_op_list)
        finally:
            if together:
                messages.end()

    patches.everywhere({original: batch_isend_irecv})


def _sharing(operations: Sequence[Any]) -> list[Any]:
    """Return the operations on memory that another one receives into. Of two receives, the later one is returned."""
    known = [each for each in operations if isinstance(each, c10d.P2POp) and each.tensor.numel()]
    found = []
    for index, operation in enumerate(known):
        others = known[:index] if _receives(operation) else known
        if any(_receives(each) and _overlap(each.tensor, operation.tensor) for each in others):
            found.append(operation)
    return found


def _receives(operation: Any) -> bool:
    return operation.op is c10d.irecv


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors overlap. Messages are contiguous."""
    if one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    (start, end), (first, last) = _extent(one), _extent(other)
    return start < last and first < end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the start and the end (exclusive) of a contiguous tensor in its storage, in bytes."""
    start = tensor.storage_offset() * tensor.element_size()
    return int(start), int(start) + tensor.numel() * tensor.element_size()
