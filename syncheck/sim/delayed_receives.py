"""Messages that a rank receives under a schedule.

A message arrives when it is sent, which may be long after the program has requested it. In program order, it is
available where the program first uses the target memory or waits for the message. There the host waits for it, unless
the schedule holds it back. Each message has its own queue, so that this rank's sends continue in the meantime.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `pointToPoint`, `getKeySendRecv`: a message outside of a group
    call has its own stream for the pair of ranks. The first one creates the pair's communicator, for which only the
    host waits, before the stream waits for the current one and the message is launched; so it can be late as well.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from syncheck.hb.ids import NO_EVENT, AllocationId, EventId, StreamId
from syncheck.instrument.torch_internals import BelowAutograd
from syncheck.sim.deferral import Deferral
from syncheck.sim.exchange import CollectiveCall, Exchange
from syncheck.sim.nccl_groups import NcclGroups
from syncheck.sim.queues import Marker
from syncheck.sim.retained_storages import fill_slots
from syncheck.sim.runtime import Runtime


@dataclass(slots=True, eq=False)
class _Receive:
    """A message that has not arrived.

    Attributes:
        call: the receive that the program called.
        end: marker for its end.
        idents: the target memory.
        handle: `id` of the program's handle.
        event: the event recorded at its end.
        begin_earlier: begins the collectives that the program called before the message was due, given the reason; None
            if the message is not due.
    """

    call: CollectiveCall
    end: Marker
    idents: frozenset[AllocationId]
    handle: int = 0
    event: EventId = NO_EVENT
    begin_earlier: Callable[[str], None] | None = None


class DelayedReceives:
    """Receives messages.

    Args:
        runtime: the virtual GPUs.
        deferral: runs operators by the schedule.
        groups: the process groups.
        beginning: returns a function that begins the collectives that are late at that time, given the reason.
    """

    def __init__(
        self, runtime: Runtime, deferral: Deferral, groups: NcclGroups, beginning: Callable[[], Callable[[str], None]]
    ) -> None:
        self._runtime = runtime
        self._gpus = runtime.gpus
        self._deferral = deferral
        self._groups = groups
        self._beginning = beginning
        self._n_receives = 0
        self._pending: list[_Receive] = []

    @property
    def is_pending(self) -> bool:
        """Return whether there are messages that have not arrived."""
        return bool(self._pending)

    def start(self, call: CollectiveCall, idents: frozenset[AllocationId], handle: int) -> None:
        """Request a message.

        Args:
            call: the receive that the program called.
            idents: the target memory.
            handle: `id` of the program's handle.
        """
        queues, retained = self._deferral.queues, self._deferral.retained
        exchange = Exchange(call, self._groups)
        with self._gpus.lock, self._runtime.unmonitored(), BelowAutograd():
            self._deferral.submit(call.stream)
            exchange.begin(call.args, call.kwargs)
            self._n_receives += 1
            own = StreamId(-self._n_receives)
            queues.wait(own, queues.mark(call.stream))
            slots, held = retained.slots_of((call.args, call.kwargs))
            written = [retained.keep(tensor) for tensor in call.written]

            def run() -> None:
                self._pending.remove(receive)
                begin = receive.begin_earlier or self._beginning()
                begin("waiting for a message requires this rank's earlier sends to begin")
                exchange.end(*fill_slots(slots))

            launch = queues.next_launch(call.stream)
            self._deferral.put(own, run, [], written, held, lambda: receive.begin_earlier is not None, launch)
            receive = _Receive(call, queues.mark(own), idents, handle)
            self._deferral.order.add_separate_queue(call.stream, receive.end)
            self._pending.append(receive)

    def attach_event(self, handle: int, event: EventId) -> None:
        """Associate the event at the end of a receive with the pending message of its handle."""
        for receive in self._pending:
            if receive.handle == handle and receive.event == NO_EVENT:
                receive.event = event
                self._deferral.order.set_marker(event, receive.end)

    def follow(self, stream: StreamId, idents: Iterable[AllocationId]) -> None:
        """Order a collective that is about to use memory after the messages of its stream to that memory."""
        used = frozenset(idents)
        self.memory_used(used)
        with self._gpus.lock:
            for receive in self._pending:
                if receive.call.stream == stream and receive.idents & used:
                    self._deferral.queues.wait(stream, receive.end)

    def memory_used(self, idents: Iterable[AllocationId]) -> None:
        """Make the messages due whose target memory the program is about to use."""
        used = frozenset(idents)
        self._make_due([receive for receive in self._pending if receive.idents & used])

    def event_awaited(self, event: EventId) -> None:
        """Make the messages due whose event the program waits for."""
        self._make_due([receive for receive in self._pending if receive.event == event])

    def _make_due(self, receives: list[_Receive]) -> None:
        """Let messages arrive, unless the schedule holds them back."""
        if receives:
            with self._gpus.lock:
                for receive in receives:
                    receive.begin_earlier = receive.begin_earlier or self._beginning()
                self._deferral.queues.pump()
