"""Collectives under a schedule: each is a launch on its stream, and accesses its tensors when it runs.

Ranks need not follow the same schedule. A collective has two steps. It begins by reading its tensors and sending them.
It ends when the other ranks have begun it and its results have been written. A rank begins its collectives in program
order, whatever their streams. Before it waits for other ranks, it begins all collectives that the program has called so
far. So ranks cannot deadlock unless the program itself does.

Source:
    torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, `nextTag`: as in NCCL, collectives of a group are matched by the
    order in which they begin; ProcessGroup.hpp, `FutureWork`.
"""

import threading
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any
from weakref import WeakSet

from syncheck.instrument.c10d import Work, finished_work, is_finished, wait_for
from syncheck.instrument.torch_internals import BelowAutograd, schema_of
from syncheck.semantics.collectives import POINT_TO_POINT, RECEIVING
from syncheck.sim.collective_arguments import gloo_arguments
from syncheck.sim.deferral import Deferral
from syncheck.sim.delayed_receives import DelayedReceives
from syncheck.sim.exchange import CollectiveCall, Exchange
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.queues import Marker
from syncheck.sim.retained_storages import fill_slots
from syncheck.sim.runtime import Runtime
from syncheck.witness.schedule import LaunchId


@dataclass(slots=True, eq=False)
class _Delayed:
    """A collective that has not ended.

    Attributes:
        exchange: its two steps.
        launch: its launch.
        before: marker for everything submitted to its stream before it.
        slots: placeholders for its arguments.
    """

    exchange: Exchange
    launch: LaunchId
    before: Marker
    slots: tuple[tuple[Any, ...], dict[str, Any]]

    @property
    def has_begun(self) -> bool:
        """Return whether the collective has read its tensors."""
        return self.exchange.work is not None


class _Latest(threading.local):
    """The thread's latest handle, kept because torch may create another Python object for it if none is alive."""

    handle: Any = None


class DelayedCollectives:
    """Runs collectives under a schedule.

    Attributes:
        receives: messages that this rank receives.
        handles: live handles given to the program. They are complete from the start.

    Args:
        runtime: the virtual GPUs.
        deferral: runs operators by the schedule.
        groups: the process groups.
    """

    def __init__(self, runtime: Runtime, deferral: Deferral, groups: NcclGroups) -> None:
        self._runtime = runtime
        self._deferral = deferral
        self._groups = groups
        self._delayed: list[_Delayed] = []  # in program order
        self._sent: list[Any] = []  # handles of messages in transit
        self.receives = DelayedReceives(
            runtime, deferral, groups, lambda: partial(self._begin_all, list(self._delayed))
        )
        self.handles: WeakSet[Any] = WeakSet()
        self._latest = _Latest()
        deferral.at_end.append(self.finish)

    def start(self, call: CollectiveCall) -> tuple[Any, Any]:
        """Submit a collective, and return its operator's result and a handle, which is complete from the start.

        Raises:
            ValueError: NCCL's errors for tensors that it rejects.
        """
        gloo_arguments(call.plan, call.args, call.kwargs, has_handle=False)
        idents = self._runtime.memory.idents([*call.reads(call.args, call.kwargs), *call.written])
        self.receives.follow(call.stream, idents)
        # a handle for the program owns the results; of the others, torch immediately waits for the latest
        boxed = finished_work(call.written if call.is_async else []).boxed()
        work = Work.unbox(boxed)
        self._latest.handle = None if call.is_async else work
        self.handles.add(work)
        if call.plan.base in RECEIVING:
            self.receives.start(call, idents, id(work))
        else:
            self._run_or_defer(call)
        is_alone = len(schema_of(call.func).returns) == 1
        return boxed if is_alone else (call.args[0], boxed), work

    def _run_or_defer(self, call: CollectiveCall) -> None:
        exchange = Exchange(call, self._groups)
        deferral = self._deferral
        with self._runtime.gpus.lock, self._runtime.unmonitored(), BelowAutograd():
            deferral.submit(call.stream)
            is_now = deferral.queues.is_free(call.stream) and all(delayed.has_begun for delayed in self._delayed)
            if not is_now:
                self._defer(call, exchange)
        if is_now:
            run = partial(self._run, call, exchange)
            deferral.run_immediately(call.stream, run, call.reads(call.args, call.kwargs), call.written)

    def begin_pending(self, what: str) -> None:
        """Begin all collectives that have not begun, because the next operation, `what`, may wait for other ranks."""
        with self._runtime.gpus.lock:
            self._begin_all(list(self._delayed), f"{what} requires all earlier collectives to begin")

    def finish(self) -> None:
        """Complete all collectives and sends before the program leaves its groups."""
        with self._runtime.gpus.lock:
            for delayed in list(self._delayed):
                self._deferral.queues.finish(Marker(delayed.before.stream, delayed.before.position + 1))
            self._deferral.queues.pump()
        while self._sent:
            wait_for(self._sent.pop())

    # -- now

    def _run(self, call: CollectiveCall, exchange: Exchange) -> None:
        exchange.begin(call.args, call.kwargs)
        self._end(call, exchange, call.args, call.kwargs)

    def _end(self, call: CollectiveCall, exchange: Exchange, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if call.plan.base in POINT_TO_POINT:
            self._sent = [*(sent for sent in self._sent if not is_finished(sent)), exchange.work]
        else:
            exchange.end(args, kwargs)

    # -- later

    def _defer(self, call: CollectiveCall, exchange: Exchange) -> None:
        queues, retained = self._deferral.queues, self._deferral.retained
        slots, held = retained.slots_of((call.args, call.kwargs))
        delayed = _Delayed(exchange, queues.next_launch(call.stream), queues.mark(call.stream), slots)
        self._delayed.append(delayed)

        def is_next() -> bool:
            return all(other.has_begun for other in self._before(delayed))

        def run() -> None:
            self._begin_all(self._before(delayed), "waiting for a later collective requires this one to begin")
            self._begin(delayed)
            self._end(call, exchange, *fill_slots(slots))
            self._delayed.remove(delayed)

        written = [retained.keep(tensor) for tensor in call.written]
        self._deferral.put(call.stream, run, [], written, held, is_next)

    def _before(self, delayed: _Delayed) -> list[_Delayed]:
        """Return the earlier collectives, in program order, that have not ended."""
        return list(takewhile(lambda other: other is not delayed, self._delayed))

    def _begin_all(self, some: list[_Delayed], reason: str) -> None:
        """Begin collectives held back by the schedule, and record the `reason` why they cannot be held back longer."""
        for delayed in some:
            if self._begin(delayed):
                self._deferral.observations.record.forced.append(reason)

    def _begin(self, delayed: _Delayed) -> bool:
        """Begin a collective after all earlier work of its stream, and return whether it had not begun yet."""
        if delayed.has_begun:
            return False
        self._deferral.finish_until(delayed.before)
        if delayed.has_begun:  # it ran as soon as no earlier work was left
            return True
        with self._runtime.unmonitored(), BelowAutograd():
            args, kwargs = fill_slots(delayed.slots)
            self._deferral.note_reads(delayed.launch, delayed.exchange.call.reads(args, kwargs))
            delayed.exchange.begin(args, kwargs)
        return True
