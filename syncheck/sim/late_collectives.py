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
from syncheck.sim.collective_arguments import for_gloo_of
from syncheck.sim.deferral import Deferral
from syncheck.sim.exchange import Asked, Exchange
from syncheck.sim.kept_storages import filled
from syncheck.sim.late_receipts import LateReceipts
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.queues import Marker
from syncheck.sim.runtime import Runtime
from syncheck.witness.schedule import LaunchId


@dataclass(slots=True, eq=False)
class _Late:
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


class LateCollectives:
    """Runs collectives under a schedule.

    Attributes:
        receipts: messages that this rank receives.
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
        self._late: list[_Late] = []  # in program order
        self._sent: list[Any] = []  # handles of messages in transit
        self.receipts = LateReceipts(runtime, deferral, groups, lambda: partial(self._begin_all, list(self._late)))
        self.handles: WeakSet[Any] = WeakSet()
        self._latest = _Latest()
        deferral.at_end.append(self.finish)

    def start(self, asked: Asked) -> tuple[Any, Any]:
        """Submit a collective, and return its operator's result and a handle, which is complete from the start.

        Raises:
            ValueError: NCCL's errors for tensors that it rejects.
        """
        for_gloo_of(asked.plan, asked.args, asked.kwargs, has_handle=False)
        idents = self._runtime.memory.idents([*asked.reads(asked.args, asked.kwargs), *asked.written])
        self.receipts.follow(asked.stream, idents)
        # a handle for the program owns the results; of the others, torch immediately waits for the latest
        boxed = finished_work(asked.written if asked.is_async else []).boxed()
        work = Work.unbox(boxed)
        self._latest.handle = None if asked.is_async else work
        self.handles.add(work)
        if asked.plan.base in RECEIVING:
            self.receipts.start(asked, idents, id(work))
        else:
            self._run_or_put_off(asked)
        is_alone = len(schema_of(asked.func).returns) == 1
        return boxed if is_alone else (asked.args[0], boxed), work

    def _run_or_put_off(self, asked: Asked) -> None:
        exchange = Exchange(asked, self._groups)
        deferral = self._deferral
        with self._runtime.gpus.lock, self._runtime.unmonitored(), BelowAutograd():
            deferral.submit(asked.stream)
            is_now = deferral.queues.is_free(asked.stream) and all(late.has_begun for late in self._late)
            if not is_now:
                self._put_off(asked, exchange)
        if is_now:
            run = partial(self._run, asked, exchange)
            deferral.run_at_once(asked.stream, run, asked.reads(asked.args, asked.kwargs), asked.written)

    def settle(self, what: str) -> None:
        """Begin all collectives that have not begun, because the next operation, `what`, may wait for other ranks."""
        with self._runtime.gpus.lock:
            self._begin_all(list(self._late), f"before {what} all earlier collectives begin")

    def finish(self) -> None:
        """Complete all collectives and sends before the program leaves its groups."""
        with self._runtime.gpus.lock:
            for late in list(self._late):
                self._deferral.queues.finish(Marker(late.before.stream, late.before.position + 1))
            self._deferral.queues.pump()
        while self._sent:
            wait_for(self._sent.pop())

    # -- now

    def _run(self, asked: Asked, exchange: Exchange) -> None:
        exchange.begin(asked.args, asked.kwargs)
        self._end(asked, exchange, asked.args, asked.kwargs)

    def _end(self, asked: Asked, exchange: Exchange, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if asked.plan.base in POINT_TO_POINT:
            self._sent = [*(sent for sent in self._sent if not is_finished(sent)), exchange.work]
        else:
            exchange.end(args, kwargs)

    # -- later

    def _put_off(self, asked: Asked, exchange: Exchange) -> None:
        queues, kept = self._deferral.queues, self._deferral.kept
        slots, held = kept.slots_of((asked.args, asked.kwargs))
        late = _Late(exchange, queues.next_launch(asked.stream), queues.mark(asked.stream), slots)
        self._late.append(late)

        def is_next() -> bool:
            return all(other.has_begun for other in self._before(late))

        def run() -> None:
            self._begin_all(self._before(late), "a later collective is waited for, which begins after it")
            self._begin(late)
            self._end(asked, exchange, *filled(slots))
            self._late.remove(late)

        written = [kept.keep(tensor) for tensor in asked.written]
        self._deferral.put(asked.stream, run, [], written, held, is_next)

    def _before(self, late: _Late) -> list[_Late]:
        """Return the earlier collectives, in program order, that have not ended."""
        return list(takewhile(lambda other: other is not late, self._late))

    def _begin_all(self, some: list[_Late], reason: str) -> None:
        """Begin collectives held back by the schedule, and record the `reason` why they cannot be held back longer."""
        for late in some:
            if self._begin(late):
                self._deferral.observations.record.forced.append(reason)

    def _begin(self, late: _Late) -> bool:
        """Begin a collective after all earlier work of its stream, and return whether it had not begun yet."""
        if late.has_begun:
            return False
        self._deferral.finish_until(late.before)
        if late.has_begun:  # it ran as soon as no earlier work was left
            return True
        with self._runtime.unmonitored(), BelowAutograd():
            args, kwargs = filled(late.slots)
            self._deferral.note_reads(late.launch, late.exchange.asked.reads(args, kwargs))
            late.exchange.begin(args, kwargs)
        return True
