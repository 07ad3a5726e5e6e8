"""Runs a program of abstract ops under a schedule. A byte's symbolic value: its last writer and what that had read."""

from types import SimpleNamespace

from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import strided
from syncheck.sim.stream_order import StreamOrder
from syncheck.witness.schedule import LaunchId, Policy
from tests.properties import ops as p
from tests.properties.reference import bytes_of

ORDERING = {
    p.Record: ("record", "event", "stream"),
    p.Wait: ("wait", "event", "stream"),
    p.WaitStream: ("wait_stream", "stream", "other"),
    p.SyncEvent: ("sync_event", "event"),
    p.SyncStream: ("sync_stream", "stream"),
    p.SyncDevice: ("sync_device", "device"),
    p.ForgetEvent: ("forget_event", "event"),
}
"""op -> its name in the engine and the monitor, and its fields in order."""


class Streams:
    """The streams of a program, with the interface that the queues need."""

    def __init__(self):
        self.guarded = SimpleNamespace(followed=frozenset(), followers=[])
        self.monitor = SimpleNamespace(capturing=lambda stream: False)
        self.streams = {}

    def streams_of(self, device):
        return [stream for stream, (where, _) in self.streams.items() if where == device]

    def ordered_with(self, stream):
        device, kind = self.streams[stream]
        wanted = {"legacy": "blocking", "blocking": "legacy"}.get(kind)
        return [other for other, found in self.streams.items() if found == (device, wanted)]


class Run:
    """One run of a program.

    Attributes:
        seen: op -> a hash of the writers of the bytes that it read.
        memory: (allocation, byte) -> its last writer.
        executed: launches and host ops in the order in which they ran.
    """

    def __init__(self, ops, policy: Policy):
        self.gpus = Streams()
        self.order = StreamOrder(self.gpus, policy, {})
        self.queues = self.order.queues
        self.seen, self.memory, self.executed = {}, {}, []
        for index, op in enumerate(ops):
            self.step(index, op)
        self.queues.finish_all()

    @property
    def outcome(self):
        return self.seen, self.memory

    def step(self, index, op):
        match op:
            case p.AddStream():
                self.gpus.streams[op.stream] = (op.device, op.kind)
            case p.Launch():
                self.order.wait_implicitly(op.stream)
                launch = self.queues.next_launch(op.stream)
                self.queues.put(op.stream, lambda: self.act(index, launch, op.accesses))
                self.follow("launch", op.stream)
            case p.HostAccess():
                self.act(index, index, [(op.allocation, op.view, op.is_write)])
            case p.ForgetEvent():
                self.order.forget(op.event)
            case _ if type(op) in ORDERING:
                name, *fields = ORDERING[type(op)]
                self.follow(name, *(getattr(op, field) for field in fields))

    def follow(self, name, *args):
        for follow in self.gpus.guarded.followers:
            follow(name, args)

    def act(self, index, name, accesses):
        """Do all reads, then all writes. A value consists of its writer and what the writer had read."""
        self.executed.append(name)
        read = [
            self.memory.get((allocation, byte))
            for allocation, view, is_write in accesses
            if not is_write
            for byte in sorted(bytes_of(view))
        ]
        self.seen[index] = hash(tuple(read))
        for allocation, view, is_write in accesses:
            if is_write:
                value = (index, self.seen[index])
                self.memory |= dict.fromkeys(((allocation, byte) for byte in bytes_of(view)), value)


def until_first_race(ops) -> tuple[tuple[p.Op, ...], list[Race]]:
    """Return the ops up to and including the first one that completes a race of two accesses, and its races."""
    verdict = Verdict()
    for index, op in enumerate(ops):
        races = [race for race in verdict.step(index, op) if not race.is_first_use]
        if races:
            return tuple(ops[: index + 1]), races
    return tuple(ops), []


class Verdict:
    """The engine's verdict on a program."""

    def __init__(self):
        self.engine, self.keys = Engine(), {}

    def key(self, view):
        if view not in self.keys:
            self.keys[view] = self.engine.add_view(strided(*view))
        return self.keys[view]

    def step(self, index, op) -> list[Race]:
        engine = self.engine
        match op:
            case p.AddStream():
                engine.add_stream(op.device, is_legacy=op.kind == "legacy", is_blocking=op.kind == "blocking")
            case p.Allocate():
                engine.allocate(op.allocation, op.home, op.n_bytes, -1, index)
            case p.Free():
                engine.free(op.allocation, index)
            case p.Launch():
                accesses = [(allocation, self.key(view), is_write) for allocation, view, is_write in op.accesses]
                return engine.launch(op.stream, accesses, index)
            case p.HostAccess():
                return engine.host_access(op.allocation, self.key(op.view), index, is_write=op.is_write)
            case _ if type(op) in ORDERING:
                name, *fields = ORDERING[type(op)]
                getattr(engine, name)(*(getattr(op, field) for field in fields))
        return []


class ScriptedPolicy:
    """A policy that returns scripted answers, then False once they are used up.

    Attributes:
        asked: number of calls to `may_run`.
    """

    def __init__(self, answers):
        self.answers = answers
        self.asked = 0

    def may_run(self, launch: LaunchId) -> bool:
        self.asked += 1
        return self.asked <= len(self.answers) and self.answers[self.asked - 1]

    def launch_ran(self, launch: LaunchId) -> None:
        """Do nothing: no decision depends on it."""

    def host_submitted(self) -> None:
        """Do nothing: no decision depends on it."""


def every_choice(run, limit):
    """Yield the runs of all answers that a policy can give, depth first, at most `limit` of them."""
    pending = [[]]
    while pending and limit:
        answers = pending.pop()
        policy = ScriptedPolicy(answers)
        yield run(policy)
        limit -= 1
        pending += [[*answers, *[False] * more, True] for more in range(policy.asked - len(answers))]
