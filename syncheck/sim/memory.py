"""Placement of storages on virtual devices: a tag for each storage, and its lifetime."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from syncheck.hb.clock import HOST
from syncheck.hb.ids import NO_ALLOCATION, UNKNOWN_SITE, Access, AllocationId, SiteId, StreamId, ViewId
from syncheck.instrument.plan import dtype_name
from syncheck.instrument.torch_internals import functorch, sparse_parts, storage_key, storage_key_of
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.allocation import Allocation, Layout, StorageRef
from syncheck.sim.alone import Alone
from syncheck.sim.errors import NotSimulatedError, out_of_memory
from syncheck.sim.gpu_trace import GpuTrace, storage_address
from syncheck.sim.host_regions import HostRegion, HostRegions
from syncheck.sim.rows import Block
from syncheck.sim.virtual_gpus import TOTAL_MEMORY, VirtualGpus

_SHARING = frozenset({"capture_begin", "record_stream"})
"""Monitor calls after which the call site of a free may matter, whichever stream uses the memory."""
_DEVICE_WAIT = "sync_device"
"""Monitor call after which the next launch may complete a finding (SYN806)."""
ENOUGH = 200
"""Number of pending calls to the monitor from which they are made. Many more would start Python's garbage collector."""


class Memory:
    """The tags of all storages.

    Attributes:
        alone: whether one stream and one thread have done all work so far.
        later: calls to the monitor, to be made before any other.
        tags: storage key -> tag of the storage. Tensors in plain host memory have none.
        views: (offset, sizes, strides in elements, type) -> the view, for tensors that are not empty.
        host_regions: pinned memory that storages without a tag may share.
        sole_stream: the stream that used or was given memory last. Until a second stream appears, the only such stream.
    """

    def __init__(self, gpus: VirtualGpus, gpu_trace: GpuTrace) -> None:
        self._gpus = gpus
        self._gpu_trace = gpu_trace
        self._devices = gpus.devices
        self._next_allocation = gpus.next_allocation
        self.alone = Alone()
        self.later = gpus.locked_monitor.pending
        self.tags: dict[int, Allocation] = {}
        self.views: dict[tuple[Any, ...], ViewId] = {}
        self._partial_views: dict[tuple[Any, ...], ViewId] = {}
        self._freed: deque[tuple[AllocationId, SiteId]] = deque()  # (id, call site)
        self._exported: set[int] = set()
        self.host_regions = HostRegions()
        self.observers: list[Callable[[int, int, int, int], None]] = []  # called before an allocation fails
        self.before_flush: Callable[[], None] | None = None  # finds memory that only submitted work still owns
        self.sole_stream = HOST
        self._frees_matter = False
        self._on_death = self._storage_died
        gpus.guarded.followed |= _SHARING
        gpus.guarded.followers.append(self._follow)
        gpu_trace.on_activation = self.alone.end

    def used_by(self, stream: StreamId) -> None:
        """Note that a stream uses memory. As long as only one does, no finding can refer to the call site of a free."""
        if stream != self.sole_stream:
            self._frees_matter = self._frees_matter or self.sole_stream != HOST
            self.sole_stream = stream
            if self._frees_matter:
                self.alone.end()

    def _follow(self, name: str, args: tuple[Any, ...]) -> None:
        """Track monitor calls after which frees matter."""
        del args
        if name in _SHARING:
            self._frees_matter = True
            self.alone.end()
        elif name == _DEVICE_WAIT:
            self.alone.suspend()

    def idents(self, tensors: Iterable[torch.Tensor]) -> frozenset[AllocationId]:
        """Return the allocations of the tensors."""
        return frozenset(tag.ident for tensor in tensors if (tag := self.of(tensor)) is not None)

    def of(self, tensor: torch.Tensor) -> Allocation | None:
        """Return a tensor's tag; None for plain host memory and for tensors without storage."""
        try:
            tag = self.tags.get(storage_key_of(tensor))
        except (NotImplementedError, RuntimeError):
            return self._tag_of_wrapped(tensor)
        if tag is None:
            return self._tag_of_shared(tensor.untyped_storage()) if self.host_regions else None
        return tag

    def _tag_of_shared(self, storage: torch.UntypedStorage) -> Allocation | None:
        """Return the tag of a storage that shares pinned memory whose address is known, or None for other memory."""
        tag = self.host_regions.new_tag(storage)
        if tag is not None:
            self._add_tag(tag, storage)
            self._exported.add(tag.reference.key)
        return tag

    def register_host(self, address: int, size: int) -> bool:
        """Pin existing host memory and return whether it was not yet pinned."""
        with self._gpus.lock:
            if self.host_regions.starting_at(address) is not None:
                return False
            self.flush()
            ident = self._next_allocation()
            self._gpus.monitor.allocate(ident, HOST, size, 0, UNKNOWN_SITE)
            self.host_regions.add(HostRegion(address, size, ident, is_registered=True))
        return True

    def unregister_host(self, address: int) -> bool:
        """Make host memory pinned with `register_host` pageable again, and return whether it was pinned."""
        with self._gpus.lock:
            region = self.host_regions.starting_at(address)
            if region is None or not region.is_registered:
                return False
            self._forget_shared(region.ident)
            self.flush()
            self._gpus.monitor.free(region.ident, UNKNOWN_SITE)
        return True

    def _forget_shared(self, ident: AllocationId) -> None:
        """Forget a region of host memory and the tags of the storages that share it."""
        self.host_regions.end(ident)
        for key in tuple(self._exported):
            tag = self.tags.get(key)
            if tag is not None and tag.ident == ident and tag.shared_from is not None:
                self.tags.pop(key, None)

    def _tag_of_wrapped(self, tensor: torch.Tensor) -> Allocation | None:
        """Return the tag of the tensor inside a `torch.func` wrapper, sparse tensor or subclass with inner tensors."""
        if functorch.is_functorch_wrapped_tensor(tensor):
            return self.of(functorch.get_unwrapped(tensor))
        if parts := sparse_parts(tensor):
            return self.of(parts[-1])
        if hasattr(tensor, "__tensor_flatten__"):  # a subclass with inner tensors: torch/utils/_python_dispatch.py
            names, _ = tensor.__tensor_flatten__()
            return self.of(getattr(tensor, names[0])) if names else None
        return None

    def of_storage(self, storage: torch.UntypedStorage) -> Allocation | None:
        """Return a storage's tag."""
        return self.tags.get(storage_key(storage))

    def device(self, tensor: torch.Tensor) -> int:
        """Return a tensor's virtual device, or HOST_DEVICE for host memory."""
        tag = self.of(tensor)
        return HOST_DEVICE if tag is None else tag.device

    def tag(self, storage: torch.UntypedStorage, device: int, site: SiteId, *, pinned: bool = False) -> Allocation:
        """Tag a new storage as an allocation on a virtual device or in pinned host memory."""
        n_bytes = storage.nbytes()
        with self._gpus.lock:
            self.flush()
            if device != HOST_DEVICE and not self._gpus.devices[device].can_allocate(n_bytes):
                raise self.fail_allocation(device, n_bytes)
            allocation = Allocation()
            allocation.ident = self._next_allocation()
            allocation.device, allocation.n_bytes = device, n_bytes
            self._add_tag(allocation, storage)
            if pinned:
                allocation.pinned = True
            self._begin(allocation, site)
        if device != HOST_DEVICE:
            allocation.address = self._gpu_trace.allocated(storage)
        return allocation

    def _add_tag(self, tag: Allocation, storage: torch.UntypedStorage) -> None:
        reference = tag.reference = StorageRef(storage, self._on_death)
        reference.key = storage_key(storage)
        self.tags[reference.key] = tag

    def tag_alone(self, storage: torch.UntypedStorage, key: int, device: int, site: SiteId) -> Allocation:
        """Do the same as `tag` for a result of the only stream, with fewer steps. `key`: the storage's key."""
        n_bytes = storage.nbytes()
        virtual = self._devices[device]
        if not virtual.can_allocate(n_bytes):
            raise self.fail_allocation(device, n_bytes)
        allocation = Allocation()
        ident = allocation.ident = self._next_allocation()
        allocation.device, allocation.n_bytes = device, n_bytes
        stream = allocation.home = self.alone.stream
        allocation.pool, allocation.site = 0, site
        reference = allocation.reference = StorageRef(storage, self._on_death)
        reference.key = key
        self.tags[key] = allocation
        virtual.memory.allocate(n_bytes)
        self.later.append(("allocate", (ident, stream, n_bytes, 0, site)))
        return allocation

    def fail_allocation(self, device: int, n_bytes: int) -> torch.OutOfMemoryError:
        """Call the program's out-of-memory observers and return torch's out-of-memory error.

        Source:
            c10/cuda/CUDACachingAllocator.cpp, `malloc`.
        """
        virtual = self._gpus.devices[device]
        virtual.memory.n_failed += 1
        in_use = virtual.memory.current
        for observe in self.observers:
            observe(device, n_bytes, in_use, TOTAL_MEMORY - in_use)
        return out_of_memory(device, n_bytes, in_use, TOTAL_MEMORY)

    def tag_pinned(self, storage: torch.UntypedStorage) -> None:
        """Tag a new storage as pinned host memory."""
        self.tag(storage, HOST_DEVICE, UNKNOWN_SITE, pinned=True)

    def _begin(self, allocation: Allocation, site: SiteId) -> None:
        gpus = self._gpus
        home, pool = HOST, 0
        if allocation.device != HOST_DEVICE:
            home = gpus.current_stream(allocation.device)
            self.used_by(home)
            pool = gpus.thread.pools.get(allocation.device, 0)
            gpus.devices[allocation.device].memory.allocate(allocation.n_bytes)
        allocation.home, allocation.pool, allocation.site = home, pool, site
        gpus.monitor.allocate(allocation.ident, home, allocation.n_bytes, pool, site)

    def _storage_died(self, reference: "StorageRef") -> None:
        # May run at any time and in any thread, even inside the monitor: only record it here.
        tag = self.tags.get(reference.key)
        if tag is not None and tag.reference is reference:
            self.drop(reference.key)

    def drop(self, key: int, *, is_late: bool = False) -> Allocation | None:
        """Remove a storage that the program has released, given its key. Return its tag, or None if it has none.

        `is_late`: the program has done so earlier, at an unknown place.
        """
        allocation = self.tags.pop(key, None)
        if allocation is None or allocation.shared_from is not None:
            return None
        if allocation.pinned and allocation.exported:
            self._forget_shared(allocation.ident)
        device = allocation.device
        if device != HOST_DEVICE:
            self._gpus.devices[device].memory.free(allocation.n_bytes)
            if self.alone.stream:
                self.later.append(("free", (allocation.ident, UNKNOWN_SITE)))
                return allocation
        is_shown = (self._frees_matter or device == HOST_DEVICE) and not is_late
        self._freed.append((allocation.ident, self._gpus.site() if is_shown else UNKNOWN_SITE))
        if allocation.address:
            self._gpu_trace.freed(allocation.address)
        return allocation

    def flush(self) -> None:
        """Report to the monitor what has happened since the last call, in order."""
        if self.before_flush is not None:
            self.before_flush()
        if self.later:
            self._gpus.locked_monitor.catch_up()
        if not self._freed:
            return
        with self._gpus.lock:
            while self._freed:
                self._gpus.monitor.free(*self._freed.popleft())

    def enter(self) -> None:
        """Report what has happened before a call of the program takes effect, if the call may depend on it."""
        if not self.alone.stream:
            self.flush()

    def forget_frees(self) -> None:
        """Stop reporting: this process is a forked child."""
        self.alone.end()
        self.later.clear()
        self.later, self._freed = deque(maxlen=0), deque(maxlen=0)

    def resized(self, storage: torch.UntypedStorage, site: SiteId) -> None:
        """Free the old memory of a storage whose size has changed, and allocate new memory."""
        allocation = self.of_storage(storage)
        if allocation is None or allocation.n_bytes == storage.nbytes():
            return
        if allocation.pinned and allocation.exported:  # the exported address is that of the old memory
            self._forget_shared(allocation.ident)
            allocation.exported = False
        with self._gpus.lock:
            self._end(allocation, site)
            allocation.n_bytes = storage.nbytes()
            self._restart(allocation, site)
        if allocation.device != HOST_DEVICE:
            self._gpu_trace.freed(allocation.address)
            allocation.address = self._gpu_trace.allocated(storage)

    def place(self, tensor: torch.Tensor, device: int, site: SiteId) -> None:
        """Place a tensor on its actual device. An earlier placement was a guess."""
        storage = tensor.untyped_storage()
        tag = self.of_storage(storage)
        if tag is None:
            if device != HOST_DEVICE:
                self.tag(storage, device, site)
        elif tag.device != device:
            with self._gpus.lock:
                self._end(tag, site)
                if device == HOST_DEVICE:
                    del self.tags[storage_key(storage)]
                else:
                    tag.device = device
                    self._restart(tag, site)

    def _end(self, allocation: Allocation, site: SiteId) -> None:
        self.flush()
        self._gpus.monitor.free(allocation.ident, site)
        if allocation.device != HOST_DEVICE:
            self._gpus.devices[allocation.device].memory.free(allocation.n_bytes)

    def _restart(self, allocation: Allocation, site: SiteId) -> None:
        allocation.ident = self._gpus.next_allocation()
        self._begin(allocation, site)

    def allocation_of(self, tensor: torch.Tensor) -> AllocationId:
        """Return the allocation that contains a tensor, or 0 for host memory that no stream has accessed."""
        tag = self.of(tensor)
        return NO_ALLOCATION if tag is None else tag.ident

    def add_access(self, accesses: list[Access], tensor: torch.Tensor, *, is_write: bool) -> None:
        """Add accesses to the whole of a tensor. For a sparse tensor, add accesses to its parts."""
        if tensor.layout is not torch.strided:
            for part in parts_of_sparse(tensor):
                self.add_access(accesses, part, is_write=is_write)
            return
        tag = self.of(tensor)
        if tag is not None and tensor.numel():
            accesses.append((tag.ident, self.view(tensor), is_write))

    def view_of_block(self, tensor: torch.Tensor, block: Block) -> ViewId:
        """Return the view id of one block of a tensor."""
        start, sizes, strides, is_partial = block
        return self._view_of((start, sizes, strides, tensor.dtype), tensor.element_size(), is_partial=is_partial)

    def view(self, tensor: torch.Tensor, *, is_partial: bool = False) -> ViewId:
        """Return the view id of a tensor's bytes, or of an unknown part of them if `is_partial`: see `Monitor.view`."""
        item = tensor.element_size()
        key: Any
        if tensor.is_nested:  # its parts lie in one buffer: use the whole buffer
            key = (0, (tensor.untyped_storage().nbytes() // item,), (1,), tensor.dtype)
        else:
            key = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
            if self.host_regions and (tag := self.tags.get(storage_key_of(tensor))) is not None and tag.shared_from:
                key = (*key, tag.shared_from)
        return self._view_of(key, item, is_partial=is_partial)

    def _view_of(self, key: tuple[Any, ...], item: int, *, is_partial: bool = False) -> ViewId:
        views = self._partial_views if is_partial else self.views
        known = views.get(key)
        if known is None:
            offset, sizes, strides, dtype, *shared_from = key
            start = offset * item + sum(shared_from)
            view = self._gpus.monitor.view
            known = view(start, tuple(sizes), strides, item, dtype_name(dtype), is_partial=is_partial)
            if 0 not in sizes:
                views[key] = known
        return known

    def mark_exported(self, tensor: torch.Tensor) -> Allocation | None:
        """Record that a tensor's address was exported, and return its tag."""
        tag = self.of(tensor)
        if tag is not None and not tag.exported:
            tag.exported = True
            self._exported.add(storage_key_of(tensor))
            if tag.pinned:
                self.host_regions.add(HostRegion(storage_address(tensor.untyped_storage()), tag.n_bytes, tag.ident))
        return tag

    def live(self) -> list[tuple[Allocation, torch.UntypedStorage]]:
        """Return the tags and storages of all live memory, in allocation order."""
        pairs = [(tag, tag.reference()) for tag in list(self.tags.values())]
        return sorted(((tag, s) for tag, s in pairs if s is not None), key=lambda pair: pair[0].ident)

    def exported(self) -> list[tuple[Allocation, torch.UntypedStorage]]:
        """Return the exported tags with their storages."""
        with self._gpus.lock:
            tags = {key: tag for key in tuple(self._exported) if (tag := self.tags.get(key)) is not None}
            self._exported = set(tags)
        pairs = [(tag, tag.reference()) for tag in tags.values()]
        return [(tag, storage) for tag, storage in pairs if storage is not None]


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """Return data type, sizes and strides of a tensor, or None for a nested tensor, which has no sizes."""
    return None if tensor.is_nested else (tensor.dtype, tuple(tensor.shape), tensor.stride())


def parts_of_sparse(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that make up a sparse tensor.

    Raises:
        NotSimulatedError: the layout is not simulated.
    """
    if parts := sparse_parts(tensor):
        return parts
    raise NotSimulatedError(f"a tensor of layout {tensor.layout}", "use dense tensors instead")
