"""The figures of a virtual GPU's memory: those of an allocator that keeps no cache. Integers only, no torch."""

from dataclasses import dataclass, field
from typing import NamedTuple

_ROUND = 512
_SMALL = 1 << 20
_POOLS = ("all", "small_pool", "large_pool")
_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes")
_COUNTS = ("allocation", "segment", "active")
_NEVER = ("inactive_split", "inactive_split_bytes")


class Block(NamedTuple):
    """What a tensor takes, and what it asked for, in bytes.

    Source:
        kMinBlockSize and kSmallSize in c10/cuda/CUDACachingAllocator.cpp.
    """

    n_bytes: int
    requested: int
    pool: str


def block_of(requested: int) -> Block:
    """Return the block for so many bytes."""
    return Block(-(-requested // _ROUND) * _ROUND, requested, "small_pool" if requested <= _SMALL else "large_pool")


@dataclass(slots=True)
class Stat:
    """One figure, as c10/core/CachingDeviceAllocator.h has it."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the figures by torch's names."""
        return {"current": self.current, "peak": self.peak, "allocated": self.allocated, "freed": self.freed}


def _by_pool() -> dict[str, Stat]:
    return {pool: Stat() for pool in _POOLS}


@dataclass(slots=True)
class MemoryCounters:
    """What one virtual GPU has allocated.

    Attributes:
        n_bytes: bytes of blocks, by pool.
        requested: bytes that were asked for, by pool.
        blocks: how many, by pool.
        n_emptied: how often the cache was emptied; for real there is one.
        n_refused: how often there was no room.
    """

    n_bytes: dict[str, Stat] = field(default_factory=_by_pool)
    requested: dict[str, Stat] = field(default_factory=_by_pool)
    blocks: dict[str, Stat] = field(default_factory=_by_pool)
    n_emptied: int = 0
    n_refused: int = 0

    @property
    def current(self) -> int:
        """The bytes that are allocated."""
        return self.n_bytes["all"].current

    @property
    def peak(self) -> int:
        """The most bytes that were allocated."""
        return self.n_bytes["all"].peak

    def allocate(self, requested: int) -> None:
        """Count a block for so many bytes."""
        if requested:
            block = block_of(requested)
            for stat, amount in self._with_amounts(block):
                stat.current += amount
                stat.allocated += amount
                stat.peak = max(stat.peak, stat.current)

    def free(self, requested: int) -> None:
        """Count a block that is freed."""
        if requested:
            block = block_of(requested)
            for stat, amount in self._with_amounts(block):
                stat.current -= amount
                stat.freed += amount

    def _with_amounts(self, block: Block) -> tuple[tuple[Stat, int], ...]:
        """Return the figures that a block counts in, with what it counts for."""
        n_bytes, requested, blocks, pool = self.n_bytes, self.requested, self.blocks, block.pool
        return (
            (n_bytes["all"], block.n_bytes),
            (n_bytes[pool], block.n_bytes),
            (requested["all"], block.requested),
            (requested[pool], block.requested),
            (blocks["all"], 1),
            (blocks[pool], 1),
        )

    def reset_peak(self) -> None:
        """Begin to look for peaks again."""
        for stat in self._stats():
            stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Begin to count again."""
        for stat in self._stats():
            stat.allocated = stat.freed = 0
        self.n_emptied = self.n_refused = 0

    def _stats(self) -> list[Stat]:
        return [stat for kind in (self.n_bytes, self.requested, self.blocks) for stat in kind.values()]

    def nested(self) -> dict[str, object]:
        """Return all figures, as `torch.cuda.memory_stats_as_nested_dict` does."""
        kinds = dict.fromkeys(_COUNTS, self.blocks) | dict.fromkeys(_BYTES, self.n_bytes)
        kinds |= {"requested_bytes": self.requested} | dict.fromkeys(_NEVER, _by_pool())
        figures: dict[str, object] = {
            name: {pool: stat.as_dict() for pool, stat in pools.items()} for name, pools in kinds.items()
        }
        blocks = self.blocks["all"]
        figures |= {name: Stat().as_dict() for name in ("oversize_allocations", "oversize_segments")}
        return figures | {
            "num_alloc_retries": self.n_refused,
            "num_ooms": self.n_refused,
            "num_sync_all_streams": self.n_emptied,
            "num_device_alloc": blocks.allocated,
            "num_device_free": blocks.freed,
            "max_split_size": -1,
        }
