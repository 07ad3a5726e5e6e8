"""Collectives on real GPUs: what the callbacks do not tell of NCCL."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.instrument import collectives
from syncheck.instrument.collectives import calls, install_calls, install_joining, makes_host_wait
from syncheck.instrument.patching import Patches
from syncheck.ranks import watchdog

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

COLLECTIVES = frozenset({"c10d", "_c10d_functional"})
"""Namespaces of operators that communicate."""
_MESSAGES = frozenset({"c10d::send", "c10d::recv_", "c10d::recv_any_source_"})


class Collectives:
    """Completes what is known of a collective that has just been launched."""

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._named: set[int] = set()

    def issuing(self, func: Any) -> tuple[Callable[[Any, Any], bool], None]:
        """Return what tells the other ranks of a collective before it runs, and leaves it to run as any operator."""
        cuda = self._cuda

        def issue(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
            if cuda.is_checking:
                collectives.issue(func, args, kwargs, cuda.site(), cuda.sites.place)
            return False

        return issue, None

    def launched(  # noqa: PLR0913, PLR0917  what one operator was
        self,
        dispatch: DispatchPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stream: int,
        device: int,
        accesses: list[tuple[int, int, bool]],
        inner: list[Callback],
    ) -> None:
        """A collective has been launched on a stream, with callbacks inside.

        Source:
            torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint`: it calls `recordStream` for the tensor of
            a message, so that nobody has to wait before it is freed.
        """
        cuda, name = self._cuda, dispatch.plan.name
        is_own = stream != cuda.streams.current(device)
        group = collectives.group_name(dispatch.func, args, kwargs) if is_own or watchdog.active is not None else ""
        with cuda.locked_monitor() as monitor:
            if is_own and stream not in self._named:
                self._named.add(stream)
                monitor.name("stream", stream, "nccl" if group in {"", "0"} else f"nccl, group {group}")
            if is_own and name in _MESSAGES:
                for allocation, view, _ in accesses:
                    monitor.record_stream(allocation, view, stream, 0)
            if is_own and collectives.is_handed_out(name):
                monitor.collective(stream, name, cuda.site())
        calls.event = next((e.event for e in inner if e.kind is Kind.RECORD and e.stream == stream), 0)
        if watchdog.wants(group) and not cuda.captures:
            watchdog.started(group, self._probe(stream, device))

    def _probe(self, stream: int, device: int) -> Callable[[], bool]:
        """Return what tells whether a stream has got as far as it is now."""
        with self._cuda.suppressed():
            event = torch._C._CudaEventBase()  # noqa: SLF001  one without hooks
            handle = self._cuda.streams.handle_of(stream)
            # a handle of 0 would make a new stream
            event.record(devices.cuda.ExternalStream(handle, device) if handle else torch.cuda.default_stream(device))
        is_complete: Callable[[], bool] = event.query
        return is_complete


class Handles:
    """Knows the events at the end of collectives that the program has handles of."""

    def __init__(self, cuda: "Cuda") -> None:
        self._cuda = cuda
        self._events: dict[int, tuple[Any, int]] = {}

    def add(self, work: Any, event: int) -> None:
        """A handle was given to the program."""
        key = id(work)
        self._events[key] = (weakref.ref(work, lambda _: self._events.pop(key, None)), event)

    def install(self, patches: Patches) -> None:
        """Follow `Work.is_completed`, which lets the host know where it says yes, and waits that block the host."""
        from torch._C._distributed_c10d import Work  # noqa: PLC0415  not in every build

        install_calls(patches, self.add)
        install_joining(patches)
        original_completed, original_wait = Work.is_completed, Work.wait

        @wraps(original_completed)
        def is_completed(work: Any) -> bool:
            done = bool(original_completed(work))
            if done:
                self._host_knows(work)
            return done

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original_wait(work, *args, **kwargs)
            if makes_host_wait(args, kwargs):
                self._host_knows(work)
            return result

        patches.set(Work, "is_completed", is_completed)
        patches.set(Work, "wait", wraps(original_wait)(wait))

    def _host_knows(self, work: Any) -> None:
        """The host knows that a collective is complete."""
        cuda, known = self._cuda, self._events.get(id(work))
        if known is not None and not cuda.callbacks_suppressed:
            with cuda.locked_monitor() as monitor:
                monitor.sync_event(known[1], cuda.sites.here())
