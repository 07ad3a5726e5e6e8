"""Memory of new tensors in a run under a schedule: preferably memory freed while work on it was pending.

Source:
    c10/cuda/CUDACachingAllocator.cpp, `free`: a block is immediately free for its own stream.
"""

import torch

from syncheck.hb.ids import StreamId
from syncheck.sim.queues import Queues
from syncheck.sim.retained_storages import RetainedStorage, RetainedStorages, byte_tensor_of, overwrite
from syncheck.sim.runtime import Runtime


class ReusedMemory:
    """Hands out memory.

    Args:
        runtime: the virtual GPUs.
        retained: the storages that submitted work needs.
        queues: the queues of the streams.
    """

    def __init__(self, runtime: Runtime, retained: RetainedStorages, queues: Queues) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._memory = runtime.memory
        self._retained = retained
        self._queues = queues

    def assign_memory(self, tensor: torch.Tensor, device: int, stream: StreamId) -> None:
        """Give a new tensor without values freed memory, or fill its own memory with recognizable values."""
        if not self.reuse_freed(tensor, device, stream, is_filled=False):
            self.fill(tensor)

    def fill(self, tensor: torch.Tensor) -> None:
        """Fill new memory, so that reads before the first write give the same values in each run."""
        with self._runtime.unmonitored():
            overwrite(byte_tensor_of(tensor.untyped_storage()), tensor.dtype)

    def reuse_freed(self, tensor: torch.Tensor, device: int, stream: StreamId, *, is_filled: bool) -> bool:
        """Give a new tensor freed memory on which work is pending, and return whether there was any.

        Other such memory that it could have been given is overwritten on the same stream.
        """
        n_bytes = tensor.untyped_storage().nbytes()
        found = self._available(n_bytes, device, stream)
        is_reused = bool(found) and found[0].storage.nbytes() == n_bytes
        if is_reused:
            values = tensor.clone() if is_filled else None
            tensor.set_(self._retained.hand_out(found.pop(0)), tensor.storage_offset(), tensor.size(), tensor.stride())
            if values is not None:
                tensor.copy_(values)
        self._overwrite_all(found, stream)
        return is_reused

    def overwrite_freed(self, n_bytes: int, device: int, stream: StreamId) -> None:
        """Overwrite, on a stream, the freed memory with pending work that an allocation on that stream may get."""
        self._overwrite_all(self._available(n_bytes, device, stream), stream)

    def _available(self, n_bytes: int, device: int, stream: StreamId) -> list[RetainedStorage]:
        """Return the freed storages with pending work that an allocation may get, those of exactly its size first."""
        self._memory.flush()
        if not n_bytes or self._gpus.thread.pools.get(device, 0):
            return []
        return self._retained.available(stream, n_bytes)

    def _overwrite_all(self, found: list[RetainedStorage], stream: StreamId) -> None:
        for retained in found:
            if not retained.is_overwritten:
                retained.is_overwritten = True
                self._overwrite(retained, stream)

    def _overwrite(self, retained: RetainedStorage, stream: StreamId) -> None:
        if self._queues.is_free(stream):
            overwrite(retained.whole, retained.dtype)
            return
        operand = self._retained.retain_freed(retained)

        def run() -> None:
            with self._runtime.unmonitored():
                overwrite(retained.whole, retained.dtype)
                self._retained.release(operand)

        self._queues.put(stream, run, is_launch=False)
