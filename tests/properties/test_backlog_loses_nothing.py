"""Calls delivered late and in part give the same findings as calls delivered immediately, for every program."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from syncheck.cuda.call_buffer import CallBuffer
from syncheck.findings import Frame, Location, Report
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import SourceLine
from syncheck.sanitizer.session import Session
from tests.properties import ops as p
from tests.properties.programs import programs
from tests.properties.reference import View


class LineSites:
    """Call sites whose numbers are their line numbers."""

    def location(self, site: int) -> Location:
        return Location(Frame("program.py", site, source=f"line {site}"))

    def lines_of(self, site: int) -> tuple[SourceLine, ...]:
        return (SourceLine("program.py", site),)

    def bound(self, site: int) -> str:
        return ""

    def ignored(self, site: int, rule: Rule) -> bool:
        return False

    def ignored_codes(self, site: int) -> list[str]:
        return []


class Delivery:
    """A session that receives a program's calls as the CUDA backend delivers them.

    Args:
        is_late: deliver through a backlog while all work is on one stream.
    """

    def __init__(self, *, is_late: bool) -> None:
        self.session = Session(lambda _: True, "no GPU")
        self.backlog = CallBuffer(self.session, self.failed)
        self.is_late = is_late
        self.views: dict[View, int] = {}
        self.pinned: set[int] = set()
        self.events: set[int] = set()
        self.streams: set[int] = set()  # with work or memory

    @staticmethod
    def failed(operator: str, error: Exception) -> None:
        raise AssertionError(operator) from error

    @property
    def now(self) -> Session:
        """The session, after all calls so far have been delivered."""
        self.backlog.flush()
        return self.session

    def view(self, view: View) -> int:
        if view not in self.views:
            self.views[view] = self.session.view(*view, "float32")
        return self.views[view]

    def step(self, op: p.Op, site: int) -> None:
        match op:
            case p.AddStream():
                legacy = op.kind == "legacy"
                handle = 0 if legacy else op.stream
                self.now.stream(op.stream, op.device, handle, site, legacy=legacy, blocking=op.kind == "blocking")
            case p.Launch():
                self.launch(op, site)
            case p.Allocate():
                (self.streams if op.home else self.pinned).add(op.home or op.allocation)
                self.deliver("allocate", op.allocation, op.home, op.n_bytes, op.pool, site)
            case p.Free():
                self.deliver("free", op.allocation, site)
            case _:
                self.order(op, site)

    def deliver(self, name: str, *args: int) -> None:
        if self.is_late:
            self.backlog.add((name, *args))
        else:
            getattr(self.now, name)(*args)

    def launch(self, op: p.Launch, site: int) -> None:
        accesses = [(allocation, self.view(view), is_write) for allocation, view, is_write in op.accesses]
        operator = f"aten::op{site % 3}"
        self.streams.add(op.stream)
        is_alone = len(self.streams) == 1 and not any(allocation in self.pinned for allocation, _, _ in accesses)
        if is_alone and self.is_late:
            self.backlog.launch(op.stream, operator, accesses, site)
        else:
            self.now.launch(op.stream, operator, accesses, site)

    def order(self, op: p.Op, site: int) -> None:
        session = self.now
        match op:
            case p.HostAccess():
                session.host_access("Tensor.tolist()", [(op.allocation, self.view(op.view), op.is_write)], site)
            case p.WaitStream():
                session.wait_stream(op.stream, op.other, site)
            case p.SyncStream():
                session.sync_stream(op.stream, site, explicit=True)
            case p.SyncDevice():
                session.sync_device(op.device, site)
            case p.RecordStream():
                session.record_stream(op.allocation, self.view(View(0, (4,), (1,))), op.stream, site)
            case _:
                self.event(op, site)

    def event(self, op: p.Op, site: int) -> None:
        session = self.now
        match op:
            case p.Record():
                if op.event not in self.events:
                    self.events.add(op.event)
                    session.event(op.event, site, timing=False)
                session.record(op.event, op.stream, site)
            case p.Wait() if op.event in self.events:
                session.wait(op.event, op.stream, site, "event")
            case p.SyncEvent() if op.event in self.events:
                session.sync_event(op.event, site)
            case p.ForgetEvent() if op.event in self.events:
                self.events.remove(op.event)
                session.drop_event(op.event)

    def report(self) -> Report:
        return self.now.report(LineSites())


def first_on_one_stream(program: p.Program, count: int) -> list[p.Op]:
    """Return the ops of a program with the first ones moved to its first stream."""
    moved: list[p.Op] = []
    for index, op in enumerate(program.ops):
        match op:
            case p.Launch() if index < count:
                moved.append(p.Launch(1, op.accesses))
            case p.Allocate() if index < count:
                moved.append(p.Allocate(op.allocation, min(op.home, 1), op.n_bytes, op.pool))
            case _:
                moved.append(op)
    return moved


def reads_of_memory_that_is_freed() -> p.Program:
    """Return a program with several launches in a batch before an allocation that makes them irrelevant."""
    small = View(0, (24,), (1,))
    read_first = p.Launch(1, ((1, small, False),))
    ops = (
        *(p.AddStream(stream, 0, "pool") for stream in (1, 2)),
        p.Allocate(1, 1, p.SMALL, 0),
        *[read_first] * 9,
        p.Allocate(2, 1, p.SMALL, 0),
        read_first,
        p.Launch(2, ((2, small, False),)),
    )
    return p.Program(ops, 0, 64)


def reads_and_writes_of_one_launch() -> p.Program:
    """Return a program with two races between the same launches: of a write with a read and with a write."""
    ends, all_of_it, half = View(0, (4, 3), (6, 1)), View(0, (24,), (1,)), View(12, (12,), (1,))
    ops = (
        *(p.AddStream(stream, 0, "pool") for stream in (1, 2)),
        p.Allocate(1, 2, p.SMALL, 0),
        p.Launch(2, ((1, all_of_it, False), (1, half, True))),
        p.Launch(2, ((1, ends, False), (1, half, True))),
        p.Launch(1, ((1, all_of_it, True),)),
    )
    return p.Program(ops, 0, 64)


def a_launch_that_reads_what_it_writes() -> p.Program:
    """Return a program with a launch that reads and writes the same bytes, and another that races with it."""
    ends, all_of_it = View(0, (4, 3), (6, 1)), View(0, (24,), (1,))
    ops = (
        p.AddStream(1, 0, "pool"),
        p.Allocate(1, 1, p.SMALL, 0),
        p.Launch(1, ((1, all_of_it, False),)),
        p.Launch(1, ((1, ends, False),)),
        p.Launch(1, ((1, all_of_it, False), (1, all_of_it, True))),
        p.AddStream(2, 0, "pool"),
        p.Launch(2, ((1, all_of_it, True),)),
    )
    return p.Program(ops, 0, 64)


@settings(max_examples=1_000)
@given(programs(), st.integers(0, 60))
@example(reads_of_memory_that_is_freed(), 0)
@example(reads_and_writes_of_one_launch(), 0)
@example(a_launch_that_reads_what_it_writes(), 0)
def test_calls_delivered_late_and_in_part_give_the_same_findings(program, count):
    reports = []
    for is_late in (False, True):
        delivered = Delivery(is_late=is_late)
        for index, op in enumerate(first_on_one_stream(program, count)):
            delivered.step(op, index + 1)
        reports.append(delivered.report())
    at_once, later = reports
    assert later.findings == at_once.findings
    assert later.summary.operators == at_once.summary.operators
    assert later.summary.streams == at_once.summary.streams
