"""Operations of a batch of messages that run beside the others, on virtual GPUs."""

import torch

from syncheck.hb.ids import BY_TORCH, UNKNOWN_SITE, NamedKind, StreamId
from syncheck.semantics.collectives import BATCH
from syncheck.sim.launches import Launches
from syncheck.sim.runtime import Runtime


class Messages:
    """See `syncheck.instrument.message_batches.Messages`."""

    def __init__(self, runtime: Runtime, launches: Launches) -> None:
        self._runtime, self._launches = runtime, launches
        self._streams: dict[int, StreamId] = {}  # device -> the stream of such operations
        self._begun: list[int] = []

    def begin(self, tensor: torch.Tensor, *, is_write: bool) -> None:
        """See `Messages`."""
        memory, gpus = self._runtime.memory, self._runtime.gpus
        tag = memory.of(tensor)
        if tag is None:
            return  # on the host
        device = memory.device(tensor)
        stream = self._stream(device)
        gpus.monitor.wait_stream(stream, gpus.current_stream(device), UNKNOWN_SITE, BY_TORCH)
        self._launches.launch(stream, BATCH, [(tag.ident, memory.view(tensor), is_write)])
        gpus.monitor.collective(stream, BATCH, gpus.site())
        self._begun.append(device)

    def end(self) -> None:
        """See `Messages`."""
        gpus = self._runtime.gpus
        while self._begun:
            device = self._begun.pop()
            gpus.monitor.wait_stream(gpus.current_stream(device), self._streams[device], UNKNOWN_SITE, BY_TORCH)

    def _stream(self, device: int) -> StreamId:
        gpus = self._runtime.gpus
        if device not in self._streams:
            self._streams[device] = gpus.new_stream(device, UNKNOWN_SITE)
            gpus.monitor.name(NamedKind.STREAM, self._streams[device], "nccl, beside")
        return self._streams[device]
