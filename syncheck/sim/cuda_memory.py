"""The memory functions of `torch.cuda`, for virtual devices: what tensors take, without an allocator's overhead."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.runtime import Runtime, active
from syncheck.sim.virtual_gpus import TOTAL_MEMORY, VirtualDevice


class MemPool:
    """`torch.cuda.MemPool`: memory that is reused only inside the pool."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs.get("allocator") is not None:
            raise NotSimulatedError("MemPool with an allocator of its own")
        self.id = (0, active().gpus.next_pool())

    def use_count(self) -> int:
        """Return how many owners the pool has: here always one."""
        return 1

    def snapshot(self, *_: Any, **__: Any) -> list[Any]:
        """Return the pool's segments: none are kept."""
        return []


class CudaMemory:
    """Makes the replacements; the names are torch's."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions, by name."""
        return self._figures() | self._settings()

    def _figures(self) -> dict[str, Callable[..., Any]]:
        def allocated(device: Any = None) -> int:
            return self._virtual(device).allocated

        def peak(device: Any = None) -> int:
            return self._virtual(device).peak

        def free_and_total(device: Any = None) -> tuple[int, int]:
            return TOTAL_MEMORY - self._virtual(device).allocated, TOTAL_MEMORY

        def reset_peak(device: Any = None) -> None:
            virtual = self._virtual(device)
            virtual.peak = virtual.allocated

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
            "memory_stats": self._stats,
            "memory_stats_as_nested_dict": self._nested_stats,
            "host_memory_stats": dict,
            "host_memory_stats_as_nested_dict": dict,
            "memory_summary": self._summary,
            "memory_snapshot": lambda *_, **__: [],
            "reset_peak_memory_stats": reset_peak,
            "reset_max_memory_allocated": reset_peak,
            "reset_max_memory_cached": reset_peak,
            "reset_accumulated_memory_stats": reset_peak,
        }

    def _settings(self) -> dict[str, Callable[..., Any]]:
        return {
            "reset_peak_host_memory_stats": lambda: None,
            "reset_accumulated_host_memory_stats": lambda: None,
            "empty_cache": lambda: None,
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
        """Let a device refuse memory beyond a part of all that it has.

        Source:
            torch/cuda/memory.py, `set_per_process_memory_fraction`.
        """
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._virtual(device).fraction = fraction

    def _nested_stats(self, device: Any = None) -> dict[str, Any]:
        virtual = self._virtual(device)
        size = {"current": virtual.allocated, "peak": virtual.peak, "allocated": virtual.peak, "freed": 0}
        counts = {
            "current": virtual.allocations,
            "peak": virtual.allocations,
            "allocated": virtual.allocations,
            "freed": 0,
        }
        names = "allocated_bytes reserved_bytes active_bytes requested_bytes inactive_split_bytes".split()
        stats: dict[str, Any] = {name: {"all": dict(size)} for name in names}
        stats |= {name: {"all": dict(counts)} for name in ("allocation", "segment", "active", "inactive_split")}
        return stats | {"num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0}

    def _stats(self, device: Any = None) -> dict[str, int]:
        flat: dict[str, int] = {}
        for name, value in self._nested_stats(device).items():
            if isinstance(value, dict):
                flat |= {f"{name}.all.{key}": number for key, number in value["all"].items()}
            else:
                flat[name] = value
        return flat

    def _summary(self, device: Any = None, abbreviated: bool = False) -> str:
        del abbreviated
        virtual = self._virtual(device)
        return f"Simulated GPU {virtual.index}: {virtual.allocated} bytes allocated, {virtual.peak} at most"

    @contextlib.contextmanager
    def _use_mem_pool(self, pool: MemPool, device: Any = None) -> Iterator[None]:
        index = self._runtime.index_of(device)
        pools = self._gpus.thread.pools
        before = pools.get(index, 0)
        pools[index] = pool.id[1]
        try:
            yield
        finally:
            pools[index] = before


def _keep_caching(value: bool = True) -> None:
    if not value:
        raise NotSimulatedError("torch.cuda.caching_allocator_enable(False)", "memory is always handed out again")
