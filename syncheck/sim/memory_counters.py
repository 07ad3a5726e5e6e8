"""Memory statistics of a virtual GPU, as of an allocator without a cache. Only integers, no torch objects."""

from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import NamedTuple

_ROUND = 512
_SMALL = 1 << 20
_POOLS = ("all", "small_pool", "large_pool")
_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes")
_COUNTS = ("allocation", "segment", "active")
_MAX_NOTED = 4096
_NEVER = ("inactive_split", "inactive_split_bytes")


class Block(NamedTuple):
    """Size of a tensor's block and the requested size, in bytes.

    Source:
        kMinBlockSize and kSmallSize in c10/cuda/CUDACachingAllocator.cpp.
    """

    n_bytes: int
    requested: int
    pool: str


def block_of(requested: int) -> Block:
    """Return the block for a request of this many bytes."""
    return Block(-(-requested // _ROUND) * _ROUND, requested, "small_pool" if requested <= _SMALL else "large_pool")


@dataclass(slots=True)
class Stat:
    """One statistic, as in c10/core/CachingDeviceAllocator.h."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def add(self, changes: "_Changes") -> None:
        """Add allocated and freed amounts."""
        self.peak = max(self.peak, self.current + changes.highest)
        self.current += changes.allocated - changes.freed
        self.allocated += changes.allocated
        self.freed += changes.freed

    def as_dict(self) -> dict[str, int]:
        """Return the statistic under torch's names."""
        return {"current": self.current, "peak": self.peak, "allocated": self.allocated, "freed": self.freed}


class _Changes(NamedTuple):
    """Allocated and freed amounts, and the highest level in between, relative to the level before."""

    allocated: int
    freed: int
    highest: int

    @classmethod
    def of(cls, changes: list[int]) -> "_Changes":
        """Return the totals of consecutive changes, of which negative ones are frees."""
        change, moved = sum(changes), sum(map(abs, changes))
        return cls((moved + change) // 2, (moved - change) // 2, max(accumulate(changes, initial=0)))


def _by_pool() -> dict[str, Stat]:
    return {pool: Stat() for pool in _POOLS}


@dataclass(slots=True)
class MemoryCounters:
    """Memory statistics of one virtual GPU.

    Attributes:
        upper: upper bound of the number of allocated bytes: frees are subtracted from it when requests are counted.
        n_emptied: number of calls that empty the cache, which a real GPU has.
        n_failed: number of failed allocations.
    """

    upper: int = 0
    n_emptied: int = 0
    n_failed: int = 0
    _n_bytes: dict[str, Stat] = field(default_factory=_by_pool)  # bytes of blocks
    _requested: dict[str, Stat] = field(default_factory=_by_pool)  # requested bytes
    _blocks: dict[str, Stat] = field(default_factory=_by_pool)
    _log: deque[int] = field(default_factory=deque)  # requests not yet counted; negative ones are frees
    _counting: AbstractContextManager[bool] = field(default_factory=Lock)

    @property
    def current(self) -> int:
        """The number of allocated bytes."""
        self._count()
        return self._n_bytes["all"].current

    @property
    def peak(self) -> int:
        """The peak number of allocated bytes."""
        self._count()
        return self._n_bytes["all"].peak

    def allocate(self, requested: int) -> None:
        """Log an allocation of this many bytes. Counting is deferred, as most programs never read the statistics."""
        if requested:
            self.upper += -(-requested // _ROUND) * _ROUND
            self._log.append(requested)
            if len(self._log) > _MAX_NOTED:
                self._count()

    def free(self, requested: int) -> None:
        """Log the release of a block. Finalizers call this at any time, in any thread."""
        if requested:
            self._log.append(-requested)

    def _count(self) -> None:
        """Update the statistics with the logged requests."""
        with self._counting:
            noted = [self._log.popleft() for _ in range(len(self._log))]
            freed = sum(-(requested // _ROUND) * _ROUND for requested in noted if requested < 0)
            self.upper -= freed  # without a call in between, so that an allocation of another thread is not lost
            large = [requested for requested in noted if not -_SMALL <= requested <= _SMALL]
            if not large:
                self._add(noted, ["all", "small_pool"])
                return
            self._add(noted, ["all"])
            self._add(large, ["large_pool"])
            self._add([requested for requested in noted if -_SMALL <= requested <= _SMALL], ["small_pool"])

    def _add(self, requests: list[int], pools: list[str]) -> None:
        sizes = _Changes.of([-(-n // _ROUND) * _ROUND if n > 0 else n // _ROUND * _ROUND for n in requests])
        requested = _Changes.of(requests)
        blocks = _Changes.of([1 if requested > 0 else -1 for requested in requests])
        for pool in pools:
            self._n_bytes[pool].add(sizes)
            self._requested[pool].add(requested)
            self._blocks[pool].add(blocks)

    def reset_peak(self) -> None:
        """Reset the peaks to the current values."""
        for stat in self._stats():
            stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Reset the accumulated counts."""
        for stat in self._stats():
            stat.allocated = stat.freed = 0
        self.n_emptied = self.n_failed = 0

    def _stats(self) -> list[Stat]:
        self._count()
        return [stat for kind in (self._n_bytes, self._requested, self._blocks) for stat in kind.values()]

    def nested(self) -> dict[str, object]:
        """Return all statistics, as `torch.cuda.memory_stats_as_nested_dict` does."""
        self._count()
        kinds = dict.fromkeys(_COUNTS, self._blocks) | dict.fromkeys(_BYTES, self._n_bytes)
        kinds |= {"requested_bytes": self._requested} | dict.fromkeys(_NEVER, _by_pool())
        figures: dict[str, object] = {
            name: {pool: stat.as_dict() for pool, stat in pools.items()} for name, pools in kinds.items()
        }
        blocks = self._blocks["all"]
        figures |= {name: Stat().as_dict() for name in ("oversize_allocations", "oversize_segments")}
        return figures | {
            "num_alloc_retries": self.n_failed,
            "num_ooms": self.n_failed,
            "num_sync_all_streams": self.n_emptied,
            "num_device_alloc": blocks.allocated,
            "num_device_free": blocks.freed,
            "max_split_size": -1,
        }
