"""The tag of a storage in simulated memory."""

import weakref

import torch

from syncheck.hb.ids import AllocationId, SiteId, StreamId

Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]
"""Data type, sizes and strides of a tensor."""


class StorageRef(weakref.ref[torch.UntypedStorage]):
    """A weak reference that stores its storage's key. It fires when the storage's last C++ owner is gone."""

    __slots__ = ("key",)
    key: int


class Allocation:
    """The tag of a storage.

    Attributes:
        reference: a weak reference to the storage.
        ident: the allocation's id; 0 for host memory that no stream has accessed.
        device: the virtual device, HOST_DEVICE for host memory.
        pinned: whether this is page-locked host memory.
        exported: whether its address was exported (numpy, data_ptr), so that host writes may go unseen.
        in_flight: checksum of an exported buffer when an asynchronous copy from it was submitted; None without a copy.
        shared_from: offset in bytes in the memory that it shares with other storages; None for memory of its own.
        address: the address passed to torch's callbacks; 0 if they have not been called.
        home: the stream that was current at the allocation; HOST for host memory.
        pool: the memory pool it comes from; 0 for the allocator's default pool.
        site: the call site of the allocation.
        layout: data type, sizes and strides of its first tensor, where they are needed.
    """

    # what is rarely set is an attribute of the class until then: every operator with a new result creates a tag
    __slots__ = ("__dict__", "device", "home", "ident", "n_bytes", "pool", "reference", "site")
    ident: AllocationId
    device: int
    n_bytes: int
    home: StreamId
    pool: int
    site: SiteId
    reference: StorageRef
    pinned: bool = False
    exported: bool = False
    in_flight: int | None = None
    shared_from: int | None = None
    address: int = 0
    layout: Layout | None = None

    def moved(self) -> "Allocation":
        """Return a tag for the memory that a storage, which gets new memory, has had until now."""
        old = Allocation()
        old.ident, old.device, old.n_bytes, old.home, old.pool = (
            self.ident, self.device, self.n_bytes, self.home, self.pool
        )  # fmt: skip
        return old
