"""Memory that submitted work still needs, even if the program has released it.

An operator that has not run yet needs the memory of its tensors, but the allocator gives a block that the program frees
to the next allocation on its stream immediately. So a storage is kept alive as long as work on it is pending. Once
nothing else owns the storage, it counts as freed, and its memory is handed out again while that work is still pending.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from syncheck.hb.ids import AllocationId, StreamId
from syncheck.hb.memory import SMALL_BYTES
from syncheck.instrument.torch_internals import storage_key, storage_owners
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.allocation import Allocation
from syncheck.sim.memory import Memory

_LARGE = 0x7F
"""The byte used to overwrite integers, which makes them large and positive."""


@dataclass(slots=True, eq=False)
class RetainedStorage:
    """A storage that submitted work needs.

    Attributes:
        whole: the bytes of the storage as a tensor, which keeps it alive.
        dtype: data type of the last tensor seen in the storage.
        n_pending: number of queue entries that need the storage, including the watched ones.
        n_watched: number of those entries that have run but whose results have yet to be inspected.
        block: the freed block; None until the program has freed it.
        protectors: callbacks that return whether a stream passed to `record_stream` may still use the freed block.
        is_overwritten: whether it has been handed out as a part of something else.
    """

    whole: torch.Tensor
    dtype: torch.dtype
    n_pending: int = 0
    n_watched: int = 0
    block: Allocation | None = None
    protectors: list[Callable[[], bool]] = field(default_factory=list)
    is_overwritten: bool = False

    @property
    def storage(self) -> torch.UntypedStorage:
        """The storage."""
        return self.whole.untyped_storage()


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor argument of an operator that has not run yet."""

    retained: RetainedStorage
    dtype: torch.dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self) -> torch.Tensor:
        """Return the tensor."""
        return torch.empty(0, dtype=self.dtype).set_(self.retained.storage, self.offset, self.size, self.stride)


@dataclass(slots=True)
class RetainedStorages:
    """All storages that submitted work needs."""

    memory: Memory
    by_key: dict[int, RetainedStorage] = field(default_factory=dict)
    freed: list[RetainedStorage] = field(default_factory=list)  # freed by the program but still needed
    recorded: dict[AllocationId, set[StreamId]] = field(default_factory=dict)

    def keep(self, tensor: torch.Tensor) -> Operand:
        """Return an operand for a tensor. `release` releases it."""
        storage = tensor.untyped_storage()
        key = storage_key(storage)
        retained = self.by_key.get(key)
        if retained is None:
            retained = self.by_key[key] = RetainedStorage(byte_tensor_of(storage), tensor.dtype)
        retained.dtype = tensor.dtype
        retained.n_pending += 1
        layout = (int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())
        return Operand(retained, tensor.dtype, *layout)

    def slots_of(self, arguments: Any) -> tuple[Any, list[Operand]]:
        """Return placeholders for arguments until they are used, and the operands among them."""
        slots = tree_map(self._slot, arguments)
        return slots, [operand for operand in tree_leaves(slots) if isinstance(operand, Operand)]

    def _slot(self, value: Any) -> Any:
        """Return a placeholder for an argument until the operator runs. Host tensors keep their current values."""
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor):
            return value
        if self.memory.device(value) == HOST_DEVICE:
            return value.detach().clone()
        return self.keep(value)

    def retain_freed(self, retained: RetainedStorage) -> Operand:
        """Return an operand for the whole of a freed storage."""
        retained.n_pending += 1
        return Operand(retained, torch.uint8, 0, tuple(retained.whole.shape), (1,))

    def watch(self, operands: Iterable[Operand]) -> None:
        """Mark operands whose work has run but whose results have yet to be inspected."""
        for operand in operands:
            operand.retained.n_watched += 1

    def release(self, operand: Operand) -> None:
        """Release an operand after its work has run."""
        retained = operand.retained
        retained.n_pending -= 1
        if retained.n_pending:
            return
        if retained in self.freed:
            self.freed.remove(retained)
        key = storage_key(retained.storage)
        if self.by_key.get(key) is retained:
            del self.by_key[key]

    def poll(self, is_pending: Callable[[StreamId], Callable[[], bool]]) -> None:
        """Report as freed all storages that only submitted work still owns.

        Args:
            is_pending: takes a stream and returns a function that returns whether the stream's current work is pending.
        """
        for key, retained in list(self.by_key.items()):
            if not _is_sole_owner(retained):
                continue
            del self.by_key[key]
            block = self.memory.drop(key)
            if block is not None:
                self._free(retained, block, is_pending)

    def before_resize(
        self, storage: torch.UntypedStorage, is_pending: Callable[[StreamId], Callable[[], bool]]
    ) -> None:
        """Prepare for a storage whose memory is about to be replaced: pending work continues with the old memory.

        Args:
            storage: the storage to be resized.
            is_pending: see `poll`.
        """
        retained = self.by_key.pop(storage_key(storage), None)
        if retained is not None:
            retained.whole = retained.whole.clone()
            block = self.memory.of_storage(storage)
            if block is not None:
                self._free(retained, block.moved(), is_pending)

    def _free(
        self, retained: RetainedStorage, block: Allocation, is_pending: Callable[[StreamId], Callable[[], bool]]
    ) -> None:
        """Record that the program has freed a block."""
        if block.device != HOST_DEVICE:
            retained.block = block
            retained.protectors = [is_pending(stream) for stream in self.recorded.pop(block.ident, ())]
            self.freed.append(retained)

    # -- the allocator

    def available(self, home: StreamId, n_bytes: int) -> list[RetainedStorage]:
        """Return the freed storages that an allocation on a stream may get, those of exactly its size first.

        Source:
            c10/cuda/CUDACachingAllocator.cpp, `get_pool`: small and large blocks never share memory.
        """
        found = [
            retained
            for retained in self.freed
            if retained.block is not None
            and retained.block.home == home
            and retained.block.pool == 0
            and (retained.block.n_bytes <= SMALL_BYTES) == (n_bytes <= SMALL_BYTES)
            and retained.n_pending > retained.n_watched
            and not any(is_pending() for is_pending in retained.protectors)
        ]
        return sorted(found, key=lambda retained: retained.storage.nbytes() != n_bytes)

    def hand_out(self, retained: RetainedStorage) -> torch.UntypedStorage:
        """Return the storage of a freed block, which then belongs to the program again."""
        self.freed.remove(retained)
        retained.block, retained.is_overwritten = None, False
        self.by_key[storage_key(retained.storage)] = retained
        return retained.storage


def fill_slots(slots: Any) -> Any:
    """Return arguments in which the placeholders made by `RetainedStorages.slots_of` are replaced by tensors."""
    return tree_map(lambda value: value.tensor() if isinstance(value, Operand) else value, slots)


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor can be represented by an operand."""
    return tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()


def overwrite(whole: torch.Tensor, dtype: torch.dtype) -> None:
    """Overwrite memory as another tensor would: with NaN or large integers."""
    if (dtype.is_floating_point or dtype.is_complex) and not whole.numel() % dtype.itemsize and dtype.itemsize > 1:
        whole.view(dtype).fill_(float("nan"))
    else:
        whole.fill_(1 if dtype == torch.bool else _LARGE)


def byte_tensor_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return all bytes of a storage as a tensor."""
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _is_sole_owner(retained: RetainedStorage) -> bool:
    storage = retained.storage
    return (storage_owners(storage), sys.getrefcount(storage)) == _sole_owner_counts()


@cache
def _sole_owner_counts() -> tuple[int, int]:
    """Return the owner counts of a storage owned only by a `RetainedStorage`. Versions of torch count differently."""
    retained = RetainedStorage(torch.empty(1, dtype=torch.uint8), torch.uint8)
    storage: Any = retained.storage
    return storage_owners(storage), sys.getrefcount(storage)
