"""Operations of a batch of messages that run beside the others, on real GPUs."""

import torch

from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import BY_TORCH, UNKNOWN_SITE, NamedKind, StreamId
from syncheck.semantics.collectives import BATCH


class Messages:
    """See `syncheck.instrument.message_batches.Messages`."""

    def __init__(self, reporter: Reporter, streams: Streams, memory: Memory, launches: Launches) -> None:
        self._reporter, self._streams, self._memory, self._launches = reporter, streams, memory, launches
        self._beside: dict[int, StreamId] = {}  # device -> the stream of such operations
        self._begun: list[int] = []

    def begin(self, tensor: torch.Tensor, *, is_write: bool) -> None:
        """See `Messages`."""
        if not (tensor.is_cuda and self._reporter.is_checking):
            return
        device = tensor.get_device()
        stream, current = self._stream(device), self._streams.current(device)
        with self._reporter.locked_monitor() as monitor:
            monitor.wait_stream(stream, current, UNKNOWN_SITE, BY_TORCH)
        access = self._memory.access(tensor, is_write=is_write)
        self._launches.launch(BATCH, stream, device, [access] if access is not None else [], [tensor])
        with self._reporter.locked_monitor() as monitor:
            monitor.collective(stream, BATCH, self._reporter.site())
        self._begun.append(device)

    def end(self) -> None:
        """See `Messages`."""
        while self._begun:
            device = self._begun.pop()
            with self._reporter.locked_monitor() as monitor:
                monitor.wait_stream(self._streams.current(device), self._beside[device], UNKNOWN_SITE, BY_TORCH)

    def _stream(self, device: int) -> StreamId:
        if device not in self._beside:
            self._beside[device] = self._streams.without_handle(device)
            with self._reporter.locked_monitor() as monitor:
                monitor.name(NamedKind.STREAM, self._beside[device], "nccl, beside")
        return self._beside[device]
