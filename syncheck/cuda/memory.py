"""Which allocation a tensor lies in: a table of addresses, kept true by weak references to the storages."""

import weakref
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from syncheck.capture.plan import dtype_name

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

Entry = tuple[int, dict[Any, int], int]
"""(allocation, views that begin at this address, byte offset of this address in the allocation)."""

UNKNOWN_POOL = -3
"""Memory whose allocation nobody saw: what used it before is unknown, and its reuse is no hazard."""

_MOST_LISTS = 512

data_ptr = torch._C.TensorBase.data_ptr  # noqa: SLF001  the method itself, which no hook of the program slows down
is_contiguous = torch._C.TensorBase.is_contiguous  # noqa: SLF001


class _StorageRef(weakref.ref[torch.UntypedStorage]):
    """A weak reference that knows its address; it fires when the last C++ owner of the storage is gone."""

    __slots__ = ("address",)
    address: int


class KnownList(NamedTuple):
    """A list of tensors that an operator was given.

    Attributes:
        n_bytes: sizes of the first and of the last.
        reads: the accesses that read them.
        writes: the accesses that write them.
    """

    n_bytes: tuple[int, int]
    reads: list[tuple[int, int, bool]]
    writes: list[tuple[int, int, bool]]


class Memory:
    """All memory of the GPUs that tensors lie in.

    Attributes:
        live: address -> entry, for every address at which a tensor was seen.
    """

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self.live: dict[int, Entry] = {}
        self._inside: dict[int, list[int]] = {}  # base address -> further addresses inside the block
        self._views: dict[int, dict[Any, int]] = {}  # byte offset -> views that begin there
        self.lists: dict[tuple[int, ...], KnownList] = {}  # addresses of the tensors -> the list
        self._in_lists: dict[int, list[tuple[int, ...]]] = {}  # address -> lists with a tensor there
        self._n_remembered = 0
        self._first_views = self.views_at(0)
        self._idents = count(1)
        self._on_death: Any = self._storage_died  # made once
        self._storages: dict[int, _StorageRef] = {}  # base address -> the storage there

    def next_ident(self) -> int:
        """Return the id of a new allocation."""
        return next(self._idents)

    def views_at(self, offset: int) -> dict[Any, int]:
        """Return the views that begin at an offset, by size in bytes if contiguous, else by (shape, stride, dtype)."""
        known = self._views.get(offset)
        if known is None:
            known = self._views[offset] = {}
        return known

    # -- life

    def begin(self, storage: torch.UntypedStorage, address: int, n_bytes: int, home: int, site: int) -> Entry:
        """A new block, allocated on stream `home`, was given to a tensor."""
        cuda = self._cuda
        ident = next(self._idents)
        reference = self._storages[address] = _StorageRef(storage, self._on_death)
        reference.address = address
        entry = self.live[address] = (ident, self._first_views, 0)
        cuda.backlog.allocate(ident, home, n_bytes, cuda.pool(home) if cuda.pools_in_use else 0, site)
        return entry

    def begin_storage(self, tensor: torch.Tensor, home: int, site: int) -> None:
        """A tensor is new: so is the block that it lies in, unless another result in it was seen already."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if not self.is_known(storage, address):
            self.begin(storage, address, storage.nbytes(), home, site)

    def is_known(self, storage: torch.UntypedStorage, address: int) -> bool:
        """Tell whether the block at an address is a storage's; what was there before is gone, if it is another's."""
        if address not in self.live:
            return False
        reference = self._storages.get(address)
        if reference is not None and reference() is not storage:
            self.freed(address)
            return False
        return True

    def begin_inside(self, tensor: torch.Tensor, home: int, site: int) -> list[tuple[int, int, bool]]:
        """A new result lies inside a block that it shares with others; return the write that fills it."""
        self.begin_storage(tensor, home, site)
        access = self.access(tensor, is_write=True)
        return [] if access is None else [access]

    def adopt(self, tensor: torch.Tensor, address: int) -> Entry:
        """A tensor turned up in memory whose allocation was not seen."""
        cuda = self._cuda
        storage = tensor.untyped_storage()
        ident = next(self._idents)
        reference = self._storages[address] = _StorageRef(storage, self._on_death)
        reference.address = address
        entry = self.live[address] = (ident, self._first_views, 0)
        home = cuda.streams.current(tensor.get_device())
        with cuda.lock:
            cuda.monitor.allocate(ident, home, storage.nbytes(), UNKNOWN_POOL, 0)
        return entry

    def _storage_died(self, reference: _StorageRef) -> None:
        """The last owner of a storage is gone. Called from any thread at any moment, also while an error is set."""
        if self._storages.get(reference.address) is reference:
            self.freed(reference.address)

    def freed(self, address: int) -> None:
        """The allocator gets a block back."""
        entry = self.live.pop(address, None)
        if entry is None:
            return
        if address in self._inside:
            for inner in self._inside.pop(address):
                self.live.pop(inner, None)
                self._forget_lists(inner)
        if address in self._in_lists:
            self._forget_lists(address)
        self._storages.pop(address, None)
        cuda = self._cuda
        if cuda.is_checking:
            cuda.backlog.free(entry[0], cuda.site() if cuda.streams.has_side else 0)  # else nobody will ask

    # -- lists of tensors

    def remember(self, addresses: tuple[int, ...], tensors: Any) -> KnownList | None:
        """Keep the accesses to a list of tensors; None if not all of them are at known addresses."""
        live = self.live
        pairs: list[tuple[int, int]] = []
        for address, tensor in zip(addresses, tensors, strict=True):
            entry = live.get(address)
            if entry is None:
                return None
            pairs.append((entry[0], self._view(entry, tensor)))
        self._n_remembered += 1
        if self._n_remembered >= _MOST_LISTS:
            self._n_remembered = 0
            self.lists.clear()
            self._in_lists.clear()
        for address in addresses:
            self._in_lists.setdefault(address, []).append(addresses)
        reads = [(allocation, view, False) for allocation, view in pairs]
        writes = [(allocation, view, True) for allocation, view in pairs]
        known = self.lists[addresses] = KnownList((tensors[0].nbytes, tensors[-1].nbytes), reads, writes)
        return known

    def _forget_lists(self, address: int) -> None:
        lists = self._in_lists.pop(address, None)
        if lists is not None:
            for addresses in lists:
                self.lists.pop(addresses, None)

    # -- tensors

    def find(self, tensor: torch.Tensor) -> Entry | None:
        """Return the entry of a tensor that is not at a known address; None if it is not on a GPU, or empty."""
        if not tensor.is_cuda or not tensor.numel():
            return None
        base = tensor.untyped_storage().data_ptr()
        entry = self.live.get(base)
        if entry is None:
            entry = self.adopt(tensor, base)
        address = data_ptr(tensor)
        if address == base:
            return entry
        inner = (entry[0], self.views_at(address - base), address - base)
        self.live[address] = inner
        self._inside.setdefault(base, []).append(address)
        return inner

    def allocation_of(self, tensor: torch.Tensor) -> int:
        """Return the allocation that a tensor lies in; 0 if none is known."""
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError, Warning):  # without storage, or a fake one
            return 0
        entry = self.live.get(address)
        return 0 if entry is None else entry[0]

    def access(self, tensor: torch.Tensor, *, is_write: bool) -> tuple[int, int, bool] | None:
        """Return the access to all of a tensor; None if it is not on a GPU, or empty."""
        entry = self.live.get(data_ptr(tensor)) or self.find(tensor)
        if entry is None:
            return None
        return entry[0], self._view(entry, tensor), is_write

    def _view(self, entry: Entry, tensor: torch.Tensor) -> int:
        """Return the view of a tensor at its entry. The hot path of `Operators.log` has this in line."""
        key = tensor.nbytes if is_contiguous(tensor) else (tensor.shape, tensor.stride(), tensor.dtype)
        view = entry[1].get(key)
        return self.new_view(entry, tensor, key) if view is None else view

    def new_view(self, entry: Entry, tensor: torch.Tensor, key: Any) -> int:
        """Announce a view that was not seen before. For a contiguous one only its extent is told: see `exact_view`."""
        if not isinstance(key, int):
            view = self.exact_view(tensor)
        else:
            with self._cuda.lock:
                view = self._cuda.monitor.view(entry[2], (key,), (1,), 1, "")
        entry[1][key] = view
        return view

    def exact_view(self, tensor: torch.Tensor) -> int:
        """Return the view of a tensor, with its shape and type."""
        item = tensor.element_size()
        start = int(tensor.storage_offset()) * item
        with self._cuda.lock:
            return self._cuda.monitor.view(start, tuple(tensor.shape), tensor.stride(), item, dtype_name(tensor.dtype))
