"""Pinned host memory whose address is known outside of torch, so that other storages may share it.

Pinning is a property of memory, not of a tensor: `torch.from_numpy(pinned.numpy())` is pinned, too.

Source:
    aten/src/ATen/cuda/detail/CUDAHooks.cpp, `isPinnedPtr`: CUDA is asked for the attributes of the pointer.
"""

import ctypes
import zlib
from typing import NamedTuple

import torch

from syncheck.hb.clock import HOST
from syncheck.hb.ids import UNKNOWN_SITE, AllocationId
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.allocation import Allocation
from syncheck.sim.gpu_trace import storage_address


class HostRegion(NamedTuple):
    """A range of pinned host memory.

    Attributes:
        start: its address.
        n_bytes: its size.
        ident: its allocation.
        is_registered: whether the program has pinned it itself, with `cudaHostRegister`.
    """

    start: int
    n_bytes: int
    ident: AllocationId
    is_registered: bool = False


class HostRegions:
    """All such regions. One may end at any time and in any thread, so each change is a single operation of a dict."""

    def __init__(self) -> None:
        self._by_start: dict[int, HostRegion] = {}

    def __bool__(self) -> bool:
        return bool(self._by_start)

    def add(self, region: HostRegion) -> None:
        """Add a region."""
        self._by_start[region.start] = region

    def starting_at(self, address: int) -> HostRegion | None:
        """Return the region that starts at an address."""
        return self._by_start.get(address)

    def end(self, ident: AllocationId) -> None:
        """Remove the region of an allocation, if it has one."""
        for region in tuple(self._by_start.values()):
            if region.ident == ident:
                self._by_start.pop(region.start, None)

    def new_tag(self, storage: torch.UntypedStorage) -> Allocation | None:
        """Return a tag for a storage whose memory begins in a region, or None for other memory."""
        try:
            address = storage_address(storage)
        except RuntimeError:  # a tensor that wraps others, such as a DTensor, has a storage without memory
            return None
        for region in tuple(self._by_start.values()):
            if region.start <= address < region.start + region.n_bytes:
                tag = Allocation()
                tag.ident, tag.device, tag.n_bytes = region.ident, HOST_DEVICE, storage.nbytes()
                tag.home, tag.pool, tag.site = HOST, 0, UNKNOWN_SITE
                tag.pinned, tag.exported, tag.shared_from = True, True, address - region.start
                return tag
        return None


def checksum(storage: torch.UntypedStorage) -> int:
    """Return a checksum of a storage's bytes."""
    return zlib.crc32((ctypes.c_char * storage.nbytes()).from_address(storage_address(storage)))
