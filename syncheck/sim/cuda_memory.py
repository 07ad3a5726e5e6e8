"""The memory functions of `torch.cuda` for virtual devices: tensors' memory, without an allocator's overhead."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.allocation import Allocation
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.gpu_trace import storage_address
from syncheck.sim.memory_counters import MemoryCounters, block_of
from syncheck.sim.runtime import Runtime, active
from syncheck.sim.virtual_gpus import TOTAL_MEMORY, VirtualDevice


class MemPool:
    """Replacement for `torch.cuda.MemPool`: memory that is reused only within the pool."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs.get("allocator") is not None:
            raise NotSimulatedError("MemPool with a custom allocator")
        self.id = (0, active().gpus.next_pool())

    def use_count(self) -> int:
        """Return the number of the pool's owners, which is always one here."""
        return 1

    def snapshot(self, *_: Any, **__: Any) -> list[Any]:
        """Return the pool's segments."""
        segments: list[Any] = torch.cuda.memory_snapshot(self.id)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return segments


class CudaMemory:
    """Creates the replacements, which have torch's names."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._raw: dict[int, torch.UntypedStorage] = {}  # address -> storage of raw allocations, without a tensor

    def low_level(self) -> dict[str, Callable[..., Any]]:
        """Return replacements for the C functions behind torch's own functions, by name."""
        return {
            "_cuda_attach_out_of_memory_observer": self._runtime.memory.observers.append,
            "_cuda_emptyCache": self._empty_cache,
            "_cuda_memoryStats": lambda device: self._virtual(device).memory.nested(),
            "_cuda_resetPeakMemoryStats": lambda device: self._virtual(device).memory.reset_peak(),
            "_cuda_resetAccumulatedMemoryStats": lambda device: self._virtual(device).memory.reset_accumulated(),
            "_cuda_memorySnapshot": self._snapshot,
            "_cuda_cudaCachingAllocator_raw_alloc": self._allocate,
            "_cuda_cudaCachingAllocator_raw_delete": self._release,
        }

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return replacements for the Python functions, by name."""
        return self._statistics() | self._settings()

    def _statistics(self) -> dict[str, Callable[..., Any]]:
        def counters(device: Any) -> MemoryCounters | None:  # torch/cuda/memory.py, `memory_stats_as_nested_dict`
            return self._virtual(device).memory if self._runtime.is_initialized else None

        def allocated(device: Any = None) -> int:
            found = counters(device)
            return 0 if found is None else found.current

        def peak(device: Any = None) -> int:
            found = counters(device)
            return 0 if found is None else found.peak

        def nested(device: Any = None) -> dict[str, Any]:
            found = counters(device)
            return {} if found is None else found.nested()

        def free_and_total(device: Any = None) -> tuple[int, int]:
            return TOTAL_MEMORY - self._virtual(device).memory.current, TOTAL_MEMORY

        def reset_peak(device: Any = None) -> None:
            self._virtual(device).memory.reset_peak()

        return {
            "memory_allocated": allocated,
            "memory_reserved": allocated,
            "memory_cached": allocated,
            "max_memory_allocated": peak,
            "max_memory_reserved": peak,
            "max_memory_cached": peak,
            "mem_get_info": free_and_total,
            "device_memory_used": allocated,
            "memory_usage": lambda *_, **__: 0,
            "memory_stats_as_nested_dict": nested,
            "host_memory_stats": dict,
            "host_memory_stats_as_nested_dict": dict,
            "reset_peak_memory_stats": reset_peak,
            "reset_max_memory_allocated": reset_peak,
            "reset_max_memory_cached": reset_peak,
            "reset_accumulated_memory_stats": lambda device=None: self._virtual(device).memory.reset_accumulated(),
        }

    def _settings(self) -> dict[str, Callable[..., Any]]:
        return {
            "reset_peak_host_memory_stats": lambda: None,
            "reset_accumulated_host_memory_stats": lambda: None,
            "empty_cache": lambda: self._empty_cache() if self._runtime.is_initialized else None,
            "set_per_process_memory_fraction": self._set_fraction,
            "get_per_process_memory_fraction": lambda device=None: self._virtual(device).fraction,
            "caching_allocator_enable": _keep_caching,
            "get_allocator_backend": lambda: "native",
            "list_gpu_processes": lambda device=None: f"GPU:{self._runtime.index_of(device)}\nno processes are running",
            "use_mem_pool": self._use_mem_pool,
            "graph_pool_handle": lambda: (0, self._gpus.next_pool()),
        }

    def _virtual(self, device: Any) -> VirtualDevice:
        self._runtime.memory.flush()
        return self._gpus.devices[self._runtime.index_of(device)]

    def _set_fraction(self, fraction: float, device: Any = None) -> None:
        """Limit the memory of a device to a fraction of its total.

        Source:
            torch/cuda/memory.py, `set_per_process_memory_fraction`.
        """
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._virtual(device).fraction = fraction

    def _empty_cache(self) -> None:
        """Count and report the call, once for each GPU. There is no cache to empty."""
        self._gpus.monitor.empty_cache(self._gpus.site())
        for device in self._gpus.devices:
            device.memory.n_emptied += 1

    def _snapshot(self, wanted: tuple[Any, ...] | None = None) -> dict[str, Any]:
        """Return the memory of all GPUs as a snapshot with one segment per block and without history.

        Args:
            wanted: starts with the number of a pool; (0, 0) or None for all memory.

        Source:
            torch/csrc/cuda/Module.cpp, `THCPModule_memorySnapshot`; read by torch/cuda/_memory_viz.py.
        """
        memory = self._runtime.memory
        memory.flush()
        pool = 0 if wanted is None else wanted[1]
        live = [(tag, storage) for tag, storage in memory.live() if tag.device != HOST_DEVICE and tag.n_bytes]
        return {
            "segments": [
                segment(tag, storage_address(storage), self._gpus.handle_of(tag.home))
                for tag, storage in live
                if pool in {0, tag.pool}
            ],
            "device_traces": [[] for _ in self._gpus.devices],
            "external_annotations": [],
            "allocator_settings": {},
        }

    def _allocate(self, size: int, stream: int) -> int:
        """Allocate raw memory without a tensor, and return its address."""
        gpus, runtime = self._gpus, self._runtime
        device, site = gpus.thread.device, gpus.site()
        with gpus.entered(gpus.external_stream(device, stream, site), site):
            storage = torch.UntypedStorage(size)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            runtime.memory.tag(storage, device, site)
        address = storage_address(storage)
        self._raw[address] = storage
        return address

    def _release(self, address: int) -> None:
        if self._raw.pop(address, None) is None:
            raise RuntimeError(f"invalid device pointer: {address:#x}")

    @contextlib.contextmanager
    def _use_mem_pool(self, pool: MemPool, device: Any = None) -> Iterator[None]:
        self._runtime.memory.alone.end()
        index = self._runtime.index_of(device)
        pools = self._gpus.thread.pools
        before = pools.get(index, 0)
        pools[index] = pool.id[1]
        try:
            yield
        finally:
            pools[index] = before


def segment(tag: Allocation, address: int, stream: int) -> dict[str, Any]:
    """Return a segment with the single block of a tensor, in torch's format."""
    block = block_of(tag.n_bytes)
    sizes = {"requested_size": block.requested, "address": address}
    return sizes | {
        "device": tag.device,
        "total_size": block.n_bytes,
        "allocated_size": block.n_bytes,
        "active_size": block.n_bytes,
        "stream": stream,
        "segment_type": block.pool.removesuffix("_pool"),
        "segment_pool_id": (0, tag.pool),
        "is_expandable": False,
        "frames": [],
        "blocks": [sizes | {"size": block.n_bytes, "state": "active_allocated", "frames": []}],
    }


def _keep_caching(value: bool = True) -> None:
    if not value:
        raise NotSimulatedError("torch.cuda.caching_allocator_enable(False)", "freed memory is always reused")
