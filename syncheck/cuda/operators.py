"""Every operator passes here: it runs, and what it read and wrote is logged on the stream that it ran on.

`log` is the hot path: a training step makes thousands of these calls, and each microsecond here is one that the user
pays. So it looks addresses up where it could ask for objects, and takes no lock that it can do without.
"""

import sys
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind, place_of_work, working_stream
from syncheck.cuda.collectives import COLLECTIVES, Collectives
from syncheck.cuda.copies import Copies
from syncheck.cuda.dispatch_plan import DispatchPlan, HigherOrder
from syncheck.cuda.memory import data_ptr, is_contiguous
from syncheck.instrument import collectives
from syncheck.instrument.plan import Plan, plan_of, tensors_in, tensors_of, unique
from syncheck.instrument.waiting import Wait, wait_of

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

Accesses = list[tuple[int, int, bool]]

_LONG = 8
"""Lists of this many tensors are remembered."""

_current_node = torch._C._current_autograd_node  # noqa: SLF001  no public name
_NUMBERS = frozenset({bool, int, float, complex})
"""What stands for a tensor where it is one number."""


class Operators:
    """Logs operators."""

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._memory = cuda.memory
        self._copies = Copies(cuda, self)
        self._collectives = Collectives(cuda)
        self.plans: dict[int, DispatchPlan | HigherOrder] = {}
        self._listens_always = False
        self.inner: dict[int, list[Callback]] = {}  # id of an operator's frame -> callbacks that came while it ran
        self.n_inner = 0  # callbacks that are kept: their events must not be forgotten yet

    def plan(self, func: Any) -> DispatchPlan | HigherOrder:
        """Work out an operator's plan, once."""
        if not isinstance(func, torch._ops.OpOverload):  # noqa: SLF001  torch has no public name
            other = self.plans[id(func)] = HigherOrder(func)
            return other
        plan = collectives.plan_of(func) or plan_of(func)
        is_collective = func.namespace in COLLECTIVES
        special = self._collectives.issuing(func) if is_collective else self._copies.specials.get(plan.base)
        dispatch = self.plans[id(func)] = DispatchPlan(func, plan, special)
        if "sparse" in plan.base or "nested" in plan.base:
            self._listen_always()
        dispatch.listens |= self._listens_always
        return dispatch

    def _listen_always(self) -> None:
        """There are tensors whose parts the host must count: operators that are silent on others wait for them."""
        self._listens_always = True
        for dispatch in list(self.plans.values()):
            dispatch.listens = True

    def recorded(self, tensor: torch.Tensor, stream: Any) -> None:
        """Log `Tensor.record_stream`, called outside of any operator."""
        try:
            self._copies.note_record(tensor, stream)
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self._cuda.disable_after_error(error)

    # -- the hot path

    def log(self, dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any] | None, result: Any) -> None:  # noqa: C901, PLR0912, PLR0915  the hot path: see the module's text
        """Log an operator that has just run in the calling frame."""
        cuda, memory = self._cuda, self._memory
        live, buffers = memory.live, cuda.host.buffers
        if memory.dead:
            memory.release_dead()
        plan = dispatch.plan
        frame = sys._getframe(1)  # noqa: SLF001  the frame that the operator ran in
        inner = self.inner.pop(id(frame), None) if self.inner else None
        if plan.synchronizes and not (inner or buffers or getattr(args[0], "is_cuda", False)):
            return
        accesses: Accesses = []
        device = -1
        is_plain = not (inner or plan.synchronizes)
        try:
            for position, name, is_list, is_write in dispatch.arguments if is_plain else ():
                value = args[position] if position < len(args) else (kwargs.get(name) if kwargs else None)
                if value is None:
                    continue
                if is_list and len(value) >= _LONG:
                    known = self._known_list(value, is_write=is_write)
                    if known is not None:
                        accesses += known
                        if device < 0:
                            device = value[0].get_device()
                        continue
                for tensor in value if is_list else (value,):
                    try:
                        entry = live.get(data_ptr(tensor))
                    except TypeError:
                        if type(tensor) in _NUMBERS:  # as in `x + 1`
                            continue
                        raise
                    if entry is None:
                        if not tensor.is_cuda:
                            is_plain &= not buffers or tensor.untyped_storage()._cdata not in buffers  # noqa: SLF001
                            continue
                        entry = memory.find(tensor)
                        if entry is None:  # empty
                            continue
                    key = tensor.nbytes if is_contiguous(tensor) else (tensor.shape, tensor.stride(), tensor.dtype)
                    view = entry.views.get(key)
                    if view is None:
                        view = memory.new_view(entry, tensor, key)
                    accesses.append((entry.ident, view, is_write))
                    if device < 0:
                        device = tensor.get_device()
        except (RuntimeError, TypeError, AttributeError):  # no storage, an optional tensor in a list
            is_plain = False
        if not is_plain:
            self.log_slowly(dispatch, args, kwargs or {}, result, inner or [])
            self.n_inner -= len(inner or ())
            return
        made: Any = ()
        if dispatch.fresh:
            if isinstance(result, torch.Tensor):
                made = (result,)
            else:
                made = [t for t in result if isinstance(t, torch.Tensor)] if dispatch.is_flat else tensors_in(result)
            if device < 0:
                device = next((tensor.get_device() for tensor in made if tensor.is_cuda), -1)
        if device < 0:
            return
        handle = devices.raw_stream(device)
        stream = cuda.streams.by_handle[device].get(handle) or cuda.streams.of(device, handle)
        site = cuda.sites.near(frame.f_back, cuda.backward_site)
        for tensor in made:
            try:
                address = data_ptr(tensor)
            except RuntimeError:  # sparse
                accesses += self._begin_made(plan, [tensor])
                continue
            if not address or not tensor.is_cuda:
                continue
            storage = tensor.untyped_storage()
            if address in live and memory.is_known(storage, address):
                continue
            if tensor.storage_offset():  # one of several results in one block
                accesses += memory.begin_inside(tensor, stream, site)
                continue
            n_bytes = tensor.nbytes  # a new tensor fills its storage, or begins it
            entry = memory.begin(storage, address, n_bytes, stream, site)
            if plan.touches:
                view = entry.views.get(n_bytes)
                if view is None:
                    view = memory.new_view(entry, tensor, n_bytes)
                accesses.append((entry.ident, view, True))
        if not accesses:
            return
        only = cuda.streams.sole_stream
        if (stream == only or (only >= 0 and cuda.streams.used(stream))) and not cuda.n_special:
            if cuda.call_buffer.launch(stream, plan.name, accesses, site):  # nothing to race with
                cuda.flush_calls()
            return
        with cuda.lock:
            if cuda.backward_site:
                self._protect_gradients(stream, accesses)
            context = self._context(dispatch, kwargs, stream, device, site) if cuda.n_special else 0
            named = cuda.monitor.launch(stream, plan.name, accesses, site, context)
        if named:
            cuda.describe(named, [*(tensor for tensor, _ in tensors_of(plan, args, kwargs or {})), *made])

    def _known_list(self, tensors: Any, *, is_write: bool) -> Accesses | None:
        """Return the accesses to a long list of tensors, kept from the last time: an optimizer has the same each step.

        The addresses must be those of the last time, and none of the memory freed since: then they are the same views.
        """
        addresses = tuple(map(data_ptr, tensors))
        known = self._memory.lists.get(addresses)
        if known is None or known.n_bytes != (tensors[0].nbytes, tensors[-1].nbytes):
            known = self._memory.remember(addresses, tensors)
            if known is None:
                return None
        return known.writes if is_write else known.reads

    def _context(
        self, dispatch: DispatchPlan, kwargs: dict[str, Any] | None, stream: int, device: int, site: int
    ) -> int:
        """Return the context of an operator in a thread with something to note."""
        wanted = kwargs.get("device") if kwargs and dispatch.plan.has_device else None
        if wanted is not None and wanted.index is None:
            self._cuda.thread.implicit_device = True
        return self._cuda.check_thread(stream, device, -1, site)

    # -- everything else

    def log_slowly(
        self,
        dispatch: DispatchPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        inner: list[Callback],
    ) -> None:
        """Log an operator with pinned or unknown memory, callbacks inside, or in a thread with something to note."""
        cuda, plan = self._cuda, dispatch.plan
        tensors = tensors_of(plan, args, kwargs) if plan.touches else []
        made = tensors_in(result) if dispatch.fresh else []
        if any(tensor.layout is not torch.strided or tensor.is_nested for tensor, _ in tensors):
            self._listen_always()
        parts = [
            (part, argument.is_write)
            for tensor, argument in tensors
            if argument.is_read or argument.is_write
            for part in dense_parts(tensor)
        ]
        device = next((t.get_device() for t, _ in parts if t.is_cuda), -1)
        if device < 0:
            device = next((part.get_device() for t in made for part in dense_parts(t) if part.is_cuda), -1)
        self._touch_host(plan, parts)
        if device < 0:
            self.replay_inner(inner)
            return
        stream = cuda.streams.current(device)
        if inner:
            stream = working_stream(inner, stream, waits_first=dispatch.func.namespace in COLLECTIVES)
        accesses = [a for t, is_write in parts if (a := self._memory.access(t, is_write=is_write))]
        made_accesses = self._begin_made(plan, made)
        self._submit(plan, args, kwargs, stream, device, accesses, made_accesses, inner, [t for t, _ in tensors] + made)
        if dispatch.func.namespace in COLLECTIVES:
            self._collectives.launched(dispatch, args, kwargs, stream, device, accesses, inner)

    def _touch_host(self, plan: Plan, parts: list[tuple[torch.Tensor, bool]]) -> None:
        host = self._cuda.host
        if host.buffers:
            accesses = [a for t, is_write in parts if not t.is_cuda and (a := host.access(t, is_write=is_write))]
            if accesses:
                host.touched(plan.name, accesses)

    def _begin_made(self, plan: Plan, made: list[torch.Tensor]) -> Accesses:
        """Announce new results; return the writes that fill them."""
        cuda, memory = self._cuda, self._memory
        accesses: Accesses = []
        with cuda.locked_monitor():
            for tensor in (part for result in made for part in dense_parts(result)):
                address = data_ptr(tensor)
                if not tensor.is_cuda or not address:
                    continue
                if address in memory.live and memory.is_known(tensor.untyped_storage(), address):
                    continue
                memory.begin_storage(tensor, cuda.streams.current(tensor.get_device()), cuda.site())
                access = memory.access(tensor, is_write=True)
                if access is not None and plan.touches:
                    accesses.append(access)
        return accesses

    def _submit(  # noqa: PLR0913, PLR0917  what one operator was
        self,
        plan: Plan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stream: int,
        device: int,
        accesses: Accesses,
        made: Accesses,
        inner: list[Callback],
        tensors: list[torch.Tensor],
    ) -> None:
        """Put the launch where it belongs among the callbacks that came while the operator ran.

        Where the host waits for a size or a number, the kernel comes after the wait.
        """
        wait = wait_of(plan, args, kwargs, _is_on_gpu)
        syncs = [index for index, entry in enumerate(inner) if entry.kind is Kind.SYNC_STREAM]
        if wait is not Wait.NEVER and not syncs:
            syncs = [len(inner)]
            inner = [*inner, Callback(Kind.SYNC_STREAM, 0, stream)]
        if syncs and wait is Wait.BEFORE:
            self.replay_inner(inner[: syncs[0]])
            self.launch(plan.name, stream, device, [a for a in accesses if not a[2]], tensors)
            self.replay_inner(inner[syncs[0] :])
            self.launch(plan.name, stream, device, accesses + made, tensors)
            return
        place = place_of_work(inner, stream)
        self.replay_inner(inner[:place])
        self.launch(plan.name, stream, device, accesses + made, tensors)
        self.replay_inner(inner[place:])

    def launch(
        self, operator: str, stream: int, device: int, accesses: Accesses, tensors: list[torch.Tensor], other: int = -1
    ) -> None:
        """Tell the monitor of one launch; `other`: a second device that it concerns."""
        if not accesses:
            return
        cuda = self._cuda
        cuda.streams.used(stream)
        with cuda.locked_monitor() as monitor:
            if cuda.backward_site:
                self._protect_gradients(stream, accesses)
            site = cuda.site()
            context = cuda.check_thread(stream, device, other, site) if cuda.n_special else 0
            named = monitor.launch(stream, operator, unique(accesses), site, context)
        if named:
            cuda.describe(named, tensors)

    def _protect_gradients(self, stream: int, accesses: Accesses) -> None:
        """An operator is about to be logged while a backward pass runs."""
        node = _current_node()
        if node is not None:
            number = node._sequence_nr()  # noqa: SLF001  torch has no public name
            self._cuda.gradients.protect(self._cuda.monitor, number, stream, accesses)

    def replay_inner(self, inner: list[Callback]) -> None:
        """Tell the monitor of callbacks that came while an operator ran."""
        if not inner:
            return
        cuda = self._cuda
        with cuda.locked_monitor() as monitor:
            site = cuda.site()
            for entry in inner:
                match entry.kind:
                    case Kind.RECORD:
                        monitor.record(entry.event, entry.stream, site)
                    case Kind.WAIT:
                        monitor.wait(entry.event, entry.stream, site, "")
                    case Kind.SYNC_STREAM:
                        monitor.sync_stream(entry.stream, site, explicit=False)
                    case Kind.SYNC_EVENT:
                        monitor.sync_event(entry.event, site)
                    case Kind.SYNC_DEVICE:
                        monitor.sync_device(entry.stream, site)


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_cuda)


def dense_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the strided tensors that make up a tensor: itself, or the parts of a sparse one; [] where it has none."""
    if tensor.is_nested or tensor._is_zerotensor():  # noqa: SLF001  neither has strides of its own
        return []
    if tensor.layout is torch.strided:
        return [tensor] if torch._C._has_storage(tensor) else []  # noqa: SLF001
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]  # noqa: SLF001  torch's names for uncoalesced parts
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []
