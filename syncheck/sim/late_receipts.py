"""Messages that a rank receives under a schedule.

A message comes when it is sent, which may be long after the program has asked for it. In the order of the program it is
there where the program first uses the memory that it comes to, or waits for it: there the host waits for it, unless
the schedule holds it back. It has a queue of its own, so that what this rank sends meanwhile goes on.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint`, `getKeySendRecv`: a message that is in no group
    call has a stream of the two ranks alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from syncheck.hb.ids import NO_EVENT, AllocationId, EventId, StreamId
from syncheck.instrument.torch_internals import BelowAutograd
from syncheck.sim.deferral import Deferral
from syncheck.sim.exchange import Asked, Exchange
from syncheck.sim.kept_storages import filled
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.queues import Marker
from syncheck.sim.runtime import Runtime


@dataclass(slots=True, eq=False)
class _Receipt:
    """A message that has not come.

    Attributes:
        asked: what the program asked for.
        end: stands for its end.
        idents: the memory that it comes to.
        handle: `id` of the program's handle.
        event: is recorded at its end.
        begin_earlier: begins the collectives that the program asked for before the message was due, given the reason;
            None where it is not due.
    """

    asked: Asked
    end: Marker
    idents: frozenset[AllocationId]
    handle: int = 0
    event: EventId = NO_EVENT
    begin_earlier: Callable[[str], None] | None = None


class LateReceipts:
    """Receives messages.

    Args:
        runtime: the virtual GPUs.
        deferral: runs operators by the schedule.
        groups: the process groups.
        beginning: returns what begins the collectives that are late by now, given the reason.
    """

    def __init__(
        self, runtime: Runtime, deferral: Deferral, groups: NcclGroups, beginning: Callable[[], Callable[[str], None]]
    ) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._deferral = deferral
        self._groups = groups
        self._beginning = beginning
        self._n_asked = 0
        self._pending: list[_Receipt] = []

    @property
    def is_pending(self) -> bool:
        """There are messages that have not come."""
        return bool(self._pending)

    def start(self, asked: Asked, idents: frozenset[AllocationId], handle: int) -> None:
        """Ask for a message.

        Args:
            asked: what the program asks for.
            idents: the memory that it comes to.
            handle: `id` of the handle that the program gets.
        """
        queues, kept = self._deferral.queues, self._deferral.kept
        exchange = Exchange(asked, self._groups)
        with self._gpus.lock, self._runtime.unmonitored(), BelowAutograd():
            self._deferral.submit(asked.stream)
            exchange.begin(asked.args, asked.kwargs)
            self._n_asked += 1
            own = StreamId(-self._n_asked)
            queues.wait(own, queues.mark(asked.stream))
            slots, held = kept.slots_of((asked.args, asked.kwargs))
            written = [kept.keep(tensor) for tensor in asked.written]

            def run() -> None:
                self._pending.remove(receipt)
                begin = receipt.begin_earlier or self._beginning()
                begin("a message was waited for, and what this rank sends before begins first")
                exchange.end(*filled(slots))

            launch = queues.next_launch(asked.stream)
            self._deferral.put(own, run, [], written, held, lambda: receipt.begin_earlier is not None, launch)
            receipt = _Receipt(asked, queues.mark(own), idents, handle)
            self._deferral.order.add_beside(asked.stream, receipt.end)
            self._pending.append(receipt)

    def recorded(self, handle: int, event: EventId) -> None:
        """An event stands for the end of what a handle is for."""
        for receipt in self._pending:
            if receipt.handle == handle and receipt.event == NO_EVENT:
                receipt.event = event
                self._deferral.order.remark(event, receipt.end)

    def follow(self, stream: StreamId, idents: Iterable[AllocationId]) -> None:
        """A collective is about to use memory: those of a group are ordered among themselves."""
        used = frozenset(idents)
        self.used(used)
        with self._gpus.lock:
            for receipt in self._pending:
                if receipt.asked.stream == stream and receipt.idents & used:
                    self._deferral.queues.wait(stream, receipt.end)

    def used(self, idents: Iterable[AllocationId]) -> None:
        """The program is about to use memory."""
        used = frozenset(idents)
        self._make_due([receipt for receipt in self._pending if receipt.idents & used])

    def waited(self, event: EventId) -> None:
        """The program waits for an event."""
        self._make_due([receipt for receipt in self._pending if receipt.event == event])

    def _make_due(self, receipts: list[_Receipt]) -> None:
        """Let messages come, unless the schedule holds them back."""
        if receipts:
            with self._gpus.lock:
                for receipt in receipts:
                    receipt.begin_earlier = receipt.begin_earlier or self._beginning()
                self._deferral.queues.pump()
