"""GPU memory that processes share, as `torch.multiprocessing` queues and arguments of spawned processes do.

The memory of a simulated GPU is host memory, so it is shared under a file name like that of a host tensor. Each process
orders its own accesses only: accesses of two processes are not compared.

Source:
    torch/multiprocessing/reductions.py, `reduce_tensor` and `rebuild_cuda_tensor`; torch/csrc/StorageSharing.cpp,
    `THPStorage_shareCuda` and `THPStorage_newSharedCuda`: the receiver's current stream waits for an event that the
    sender records on its current stream.
"""

from typing import Any

import torch

from syncheck.instrument.patching import Patches
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.runtime import Runtime

_Storage = torch.UntypedStorage
_NO_COUNTER = (None, 0)
"""File and offset of the counter of references. The shared file counts them itself."""
_NO_EVENT = (None, False)
"""Handle of the sender's event, and whether the receiver has to wait for it."""


class SharedStorages:
    """Shares the storages of simulated GPUs between processes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def install(self, patches: Patches) -> None:
        """Replace the functions that share GPU storages."""

        def share(storage: torch.UntypedStorage) -> tuple[Any, ...]:
            return self.share(storage)

        patches.set(_Storage, "_share_cuda_", share)
        patches.set(_Storage, "_new_shared_cuda", staticmethod(self.open))
        patches.set(_Storage, "_release_ipc_counter_cuda", staticmethod(lambda *_: None))

    def share(self, storage: torch.UntypedStorage) -> tuple[Any, ...]:
        """Move a storage into shared memory; return what another process needs in order to open it.

        Under a schedule, all pending work runs first, because the other process reads the memory as it is.

        Raises:
            RuntimeError: for a storage in host memory.
        """
        tag = self._runtime.memory.of_storage(storage)
        if tag is None or tag.device == HOST_DEVICE:
            raise RuntimeError("_share_cuda_: only available on CUDA")
        deferral: Any = self._runtime.deferral
        if deferral is not None:
            deferral.run_all_pending("sharing memory with another process")
        if not storage.nbytes():
            return tag.device, None, 0, 0, *_NO_COUNTER, *_NO_EVENT
        with self._runtime.unmonitored():
            manager, name, n_bytes = storage._share_filename_cpu_()
            storage._shared_incref()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return tag.device, (manager, name), n_bytes, 0, *_NO_COUNTER, *_NO_EVENT

    def open(self, device: int, handle: tuple[bytes, bytes], n_bytes: int, *_: Any) -> torch.UntypedStorage:
        """Return a storage of another process."""
        manager, name = handle
        with self._runtime.unmonitored():
            storage = _Storage._new_shared_filename_cpu(manager, name, n_bytes)
            storage._shared_decref()
        self._runtime.memory.tag(storage, self._runtime.index_of(device), self._runtime.gpus.site())
        return storage
