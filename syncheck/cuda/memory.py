"""Maps tensors to allocations: a table of addresses, kept up to date by weak references to the storages."""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import torch

from syncheck.cuda.owners import Owners
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.hb.ids import NO_ALLOCATION, UNKNOWN_SITE, Access, Accesses, AllocationId, SiteId, StreamId, ViewId
from syncheck.instrument.plan import dtype_name
from syncheck.instrument.torch_internals import data_ptr, has_storage, is_contiguous, is_zero_tensor, sparse_parts

UNKNOWN_POOL = -3
"""Pool of memory whose allocation was not seen: its earlier use is unknown, and its reuse is not a hazard."""

_MAX_LISTS = 512


class Entry(weakref.ref[torch.UntypedStorage]):
    """An address in use: a weak reference to the storage; that of the base address calls back when the storage dies.

    Attributes:
        address: the address.
        ident: the allocation.
        offset: byte offset of the address in the allocation.
        views: views that begin at the address, by size in bytes if contiguous, else by (shape, stride, dtype).
    """

    __slots__ = ("address", "ident", "offset", "views")
    address: int
    ident: AllocationId
    offset: int
    views: dict[Any, ViewId]


class CachedList(NamedTuple):
    """A list of tensors that was passed to an operator.

    Attributes:
        n_bytes: sizes of the first and the last tensor.
        reads: the accesses that read the tensors.
        writes: the accesses that write the tensors.
    """

    n_bytes: tuple[int, int]
    reads: list[Access]
    writes: list[Access]


class Memory:
    """All GPU memory that holds tensors.

    Attributes:
        live: address -> entry, for every address at which a tensor was seen.
        dead: entries whose storages are gone but that have not been processed yet.
        homes: allocation -> the only stream that has used it, for allocations used by a single stream.
        owners: the streams that have shared allocations to themselves again.
        freed_shared: memory used by several streams was freed, and the monitor has not been notified yet.
        adopt: called with the storage of a tensor at an unknown address; enters memory that was seen elsewhere first,
            and returns whether it did.
        on_used: called with a stream that is about to use memory.
        on_shared: called with an allocation that a second stream is about to use.
        on_freed: called with an allocation that was freed.
        shares_all: a graph is being captured, and whichever stream replays it uses the memory used meanwhile.
    """

    def __init__(self, reporter: Reporter, streams: Streams, threads: ThreadContexts) -> None:
        self._reporter = reporter
        self._streams = streams
        self._threads = threads
        self.live: dict[int, Entry] = {}
        self._inside: dict[int, list[int]] = {}  # base address -> other known addresses inside the block
        self._views: dict[int, dict[Any, ViewId]] = {}  # byte offset -> views that begin there
        self.lists: dict[tuple[int, ...], CachedList] = {}  # addresses of the tensors -> the list
        self._in_lists: dict[int, list[tuple[int, ...]]] = {}  # address -> lists with a tensor at that address
        self._n_remembered = 0
        self._first_views = self.views_at(0)
        self._idents: Iterator[int] = count(1)
        self.dead: deque[Entry] = deque()
        self.homes: dict[AllocationId, StreamId] = {}
        self.owners = Owners()
        self.freed_shared = False
        self.adopt: Callable[[torch.UntypedStorage], bool] = lambda _: False
        self.on_used: Callable[[StreamId], None] = lambda _: None
        self.on_shared: Callable[[AllocationId], None] = lambda _: None
        self.on_freed: Callable[[AllocationId], None] = lambda _: None
        self.shares_all = False
        self._on_death: Callable[[Any], None] = self.dead.append  # keeps Python code of ours out of the program's frees

        reporter.before_flush.append(self.release_dead)
        streams.on_multiple_streams.append(self.watch_frees)

    def next_ident(self) -> AllocationId:
        """Return the id of a new allocation."""
        return AllocationId(next(self._idents))

    def count_by(self, next_number: Callable[[], int]) -> None:
        """Take the ids of new allocations from another source, which must return increasing numbers."""
        self._idents = iter(next_number, 0)

    def views_at(self, offset: int) -> dict[Any, ViewId]:
        """Return the views that begin at an offset, by size in bytes if contiguous, else by (shape, stride, dtype)."""
        known = self._views.get(offset)
        if known is None:
            known = self._views[offset] = {}
        return known

    # -- life

    def begin(
        self, storage: torch.UntypedStorage, address: int, n_bytes: int, home: StreamId, site: SiteId, pool: int = 0
    ) -> Entry:
        """Announce a new block, allocated on stream `home`, and return its entry."""
        streams = self._streams
        entry = self.live[address] = Entry(storage, self._on_death)
        entry.address = address
        entry.ident = ident = next(self._idents)  # type: ignore[assignment]  # to call AllocationId costs too much here
        entry.offset = 0
        entry.views = self._first_views
        self.homes[entry.ident] = home
        if home != streams.sole_stream >= 0:
            streams.used(home)
        if self._threads.pools_in_use and not pool:
            pool = self._threads.pool(home)
        self._reporter.call_buffer.add(("allocate", ident, home, n_bytes, pool, site))
        return entry

    def enter(self, storage: torch.UntypedStorage, ident: AllocationId, home: StreamId) -> None:
        """Enter memory that the monitor already tracks.

        Args:
            storage: the storage that owns the memory.
            ident: the allocation.
            home: the only stream that has used it; negative if there are several.
        """
        address = storage.data_ptr()
        if not address:  # it was freed in the meantime
            self._reporter.call_buffer.add(("free", ident, 0))
            return
        if address in self.live:  # left over from a block that is gone
            self.freed(address)
        entry = self.live[address] = Entry(storage, self._on_death)
        entry.address, entry.ident, entry.offset, entry.views = address, ident, 0, self._first_views
        if home > 0:
            self.homes[ident] = home

    def used(self, stream: StreamId, accesses: Accesses) -> None:
        """Note that a stream is about to use memory."""
        homes = self.homes
        self.on_used(stream)
        for allocation, _, _ in accesses:
            home = homes.get(allocation)
            if home is None:
                self.owners.use(stream, allocation)
            elif home != stream or self.shares_all:
                del homes[allocation]
                self.on_shared(allocation)

    def begin_storage(self, tensor: torch.Tensor, home: StreamId, site: SiteId) -> None:
        """Announce the block of a new tensor, unless another result in the same block was already seen."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not self.is_known(storage, address):
            self.begin(storage, address, storage.nbytes(), home, site)

    def is_known(self, storage: torch.UntypedStorage, address: int) -> bool:
        """Return whether the block at an address belongs to a storage, freeing a stale block that was there before."""
        entry = self.live.get(address)
        if entry is not None:
            current = entry()
            if current is storage or (entry.offset and current is not None):  # or an address inside a live block
                return True
            self.freed(address - entry.offset)
        return self.adopt(storage)

    def begin_inside(self, tensor: torch.Tensor, home: StreamId, site: SiteId) -> list[Access]:
        """Announce a new result that may share its block with others; return the write that fills it."""
        self.begin_storage(tensor, home, site)
        access = self.access(tensor, is_write=True)
        return [] if access is None else [access]

    def begin_results(self, results: list[torch.Tensor]) -> list[Access]:
        """Announce new results of an operator, allocated on the current stream; return the writes that fill them."""
        accesses: list[Access] = []
        with self._reporter.locked_monitor():
            for tensor in (part for result in results for part in dense_parts(result)):
                address = data_ptr(tensor)
                if not tensor.is_cuda or not address:
                    continue
                if address in self.live and self.is_known(tensor.untyped_storage(), address):
                    continue
                accesses += self.begin_inside(tensor, self._streams.current(tensor.get_device()), self._reporter.site())
        return accesses

    def register_unknown(self, tensor: torch.Tensor, address: int) -> Entry:
        """Enter a tensor whose memory was allocated unseen, and return its entry."""
        storage = tensor.untyped_storage()
        home = self._streams.current(tensor.get_device())
        entry = self.begin(storage, address, storage.nbytes(), home, UNKNOWN_SITE, UNKNOWN_POOL)
        self._reporter.flush_calls()
        return entry

    def release_dead(self) -> None:
        """Free dead entries. Called before any address is looked up, and before the monitor is notified."""
        dead, live, inside, in_lists = self.dead, self.live, self._inside, self._in_lists
        while dead:
            try:
                entry = dead.popleft()
            except IndexError:  # another thread was faster
                return
            address = entry.address
            entry_now = live.pop(address, None)
            if entry_now is entry:
                if address in in_lists or address in inside:
                    self._forget(address)
                self._report_free(entry.ident, SiteId(0))  # the call site of such a free is never shown
            elif entry_now is not None:  # another thread has received the address since then
                live.setdefault(address, entry_now)

    def _on_storage_freed(self, entry: Entry) -> None:
        """Free a storage's block when its last owner is gone; runs in any thread, even while an exception is set."""
        if self.live.get(entry.address) is entry:
            self.freed(entry.address)

    def watch_frees(self) -> None:
        """Process frees immediately from now on, because their call sites matter once there are several streams."""
        self._on_death = self._on_storage_freed
        self.release_dead()
        for address, entry in list(self.live.items()):
            storage = entry()
            if storage is not None and not entry.offset:
                new_entry = self.live[address] = Entry(storage, self._on_death)
                new_entry.address, new_entry.ident = address, entry.ident
                new_entry.offset, new_entry.views = 0, entry.views

    def freed(self, address: int) -> None:
        """Record that the allocator got the block at an address back."""
        entry = self.live.pop(address, None)
        if entry is None:
            return
        self._forget(address)
        reporter = self._reporter
        self._report_free(
            entry.ident, reporter.site() if reporter.is_checking and self._streams.saw_side_stream else SiteId(0)
        )

    def _report_free(self, ident: AllocationId, site: SiteId) -> None:
        """Report the end of an allocation's lifetime."""
        is_shared = self.homes.pop(ident, None) is None
        self.owners.forget(ident)
        self.on_freed(ident)
        if self._reporter.is_checking:
            self._reporter.call_buffer.add(("free", ident, site))
            self.freed_shared |= is_shared  # only after the call is in the buffer

    def _forget(self, address: int) -> None:
        """Drop everything else stored for the block at an address."""
        if address in self._inside:
            for inner in self._inside.pop(address):
                self.live.pop(inner, None)
                self._forget_lists(inner)
        if address in self._in_lists:
            self._forget_lists(address)

    # -- lists of tensors

    def remember(self, addresses: tuple[int, ...], tensors: Any) -> CachedList | None:
        """Cache the accesses to a list of tensors; return None if any address is unknown."""
        live = self.live
        pairs: list[tuple[AllocationId, ViewId]] = []
        for address, tensor in zip(addresses, tensors, strict=True):
            entry = live.get(address)
            if entry is None:
                return None
            pairs.append((entry.ident, self._view(entry, tensor)))
        self._n_remembered += 1
        if self._n_remembered >= _MAX_LISTS:
            self._n_remembered = 0
            self.lists.clear()
            self._in_lists.clear()
        for address in addresses:
            self._in_lists.setdefault(address, []).append(addresses)
        reads = [(allocation, view, False) for allocation, view in pairs]
        writes = [(allocation, view, True) for allocation, view in pairs]
        known = self.lists[addresses] = CachedList((tensors[0].nbytes, tensors[-1].nbytes), reads, writes)
        return known

    def _forget_lists(self, address: int) -> None:
        lists = self._in_lists.pop(address, None)
        if lists is not None:
            for addresses in lists:
                self.lists.pop(addresses, None)

    # -- tensors

    def find(self, tensor: torch.Tensor) -> Entry | None:
        """Return the entry of a tensor at an unknown address; None if it is empty or not on a GPU."""
        if not tensor.is_cuda or not tensor.numel():
            return None
        storage = tensor.untyped_storage()
        base = storage.data_ptr()
        entry = self.live.get(base)
        if entry is None:
            entry = self.live[base] if self.adopt(storage) else self.register_unknown(tensor, base)
        address = data_ptr(tensor)
        if address == base:
            return entry
        inner = self.live[address] = Entry(storage)
        inner.address, inner.ident, inner.offset = address, entry.ident, address - base
        inner.views = self.views_at(address - base)
        self._inside.setdefault(base, []).append(address)
        return inner

    def allocation_of(self, tensor: torch.Tensor) -> AllocationId:
        """Return the allocation that holds a tensor; 0 if it is unknown."""
        try:
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
        except (RuntimeError, NotImplementedError, Warning):  # no storage, or a fake one
            return NO_ALLOCATION
        if address not in self.live:
            self.adopt(storage)
        entry = self.live.get(address)
        return NO_ALLOCATION if entry is None else entry.ident

    def access(self, tensor: torch.Tensor, *, is_write: bool) -> Access | None:
        """Return the access to a whole tensor; None if it is empty or not on a GPU."""
        entry = self.live.get(data_ptr(tensor)) or self.find(tensor)
        if entry is None:
            return None
        return entry.ident, self._view(entry, tensor), is_write

    def current_access(self, tensor: torch.Tensor) -> Access | None:
        """Process pending frees, then return the access that reads a whole tensor; None if it is empty."""
        self.release_dead()
        return self.access(tensor, is_write=False)

    def extent(self, offset: int, n_bytes: int) -> ViewId:
        """Return the view of `n_bytes` bytes at an offset in a block."""
        views = self.views_at(offset)
        view = views.get(n_bytes)
        if view is None:
            with self._reporter.lock:
                view = views[n_bytes] = self._reporter.call_buffer.monitor.view(offset, (n_bytes,), (1,), 1, "")
        return view

    def _view(self, entry: Entry, tensor: torch.Tensor) -> ViewId:
        """Return the view of a tensor at its entry. Inlined in the hot path, `Operators.log`."""
        key = tensor.nbytes if is_contiguous(tensor) else (tensor.shape, tensor.stride(), tensor.dtype)
        view = entry.views.get(key)
        return self.new_view(entry, tensor, key) if view is None else view

    def new_view(self, entry: Entry, tensor: torch.Tensor, key: Any) -> ViewId:
        """Register a new view. A contiguous one passes only its extent; see `exact_view`."""
        if isinstance(key, int):
            return self.extent(entry.offset, key)
        view = entry.views[key] = self.exact_view(tensor)
        return view

    def rows_of(self, tensor: torch.Tensor, access: Access) -> Access:
        """Return an access to some rows of a tensor, selected by an index, in place of the access to all of it.

        Args:
            tensor: the indexed tensor.
            access: the operator's first access.
        """
        entry = self.live.get(data_ptr(tensor)) or self.find(tensor)
        if entry is None or entry.ident != access[0]:  # the tensor is empty and has no access
            return access
        key = ("rows", tensor.shape, tensor.stride(), tensor.dtype)
        view = entry.views.get(key)
        if view is None:
            view = entry.views[key] = self.exact_view(tensor, is_partial=True)
        return access[0], view, access[2]

    def exact_view(self, tensor: torch.Tensor, *, is_partial: bool = False) -> ViewId:
        """Return the view of a tensor with its shape and dtype; for `is_partial` see `Monitor.view`."""
        item = tensor.element_size()
        start = int(tensor.storage_offset()) * item
        shape, dtype = tuple(tensor.shape), dtype_name(tensor.dtype)
        with self._reporter.lock:
            view = self._reporter.call_buffer.monitor.view
            return view(start, shape, tensor.stride(), item, dtype, is_partial=is_partial)


def dense_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the strided tensors that a tensor consists of: itself, or the parts of a sparse tensor; [] if none."""
    if tensor.is_nested or is_zero_tensor(tensor):
        return []
    if tensor.layout is torch.strided:
        return [tensor] if has_storage(tensor) else []
    return sparse_parts(tensor)
