"""The decision table: which rule explains a race and which line is blamed."""

import pytest

from syncheck.findings import Applicability, EditKind, Severity
from syncheck.hb.clock import HOST, TICK
from syncheck.hb.footprint import dense
from syncheck.hb.ids import NamedKind, StreamOrigin
from syncheck.hb.memory import Note
from syncheck.sanitizer import classify
from syncheck.sanitizer.classify import explain
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import EventCode, GroupCode, StreamCode, StreamInfo, TensorRef, View
from syncheck.sanitizer.race_context import UNSEEN_WRITE, RaceContext
from syncheck.sanitizer.sync_history import NOT_RECORDED, HostSync, LostRecord, SyncHistory, Wait
from tests.unit.sanitizer.program import Text, new_collector, new_engine

BY_NAME = (StreamOrigin.BY_NAME, StreamOrigin.BY_NAME)
EARLY, LATE = 10, 20
"""The lines of the two accesses."""


class Raced:
    """Two accesses to one allocation: the early one on stream 2, the late one on stream 3 or by the host."""

    def __init__(self, *, writes=(True, False), late=3, early=2, devices=1, operators=("aten::mul_", "aten::sum")):
        self.collector = new_collector()
        self.engine = new_engine(4, self.collector, devices)
        names = self.collector.names
        names.views.append(View((4,), 4, "float32"))
        names.given |= {(NamedKind.STREAM, 2): "early", (NamedKind.STREAM, 3): "late", (NamedKind.ALLOCATION, 9): "x"}
        self.history = SyncHistory(lambda host, moment: True)
        self.labels = [Label(EARLY, operators[0]), Label(LATE, operators[1])]
        self.late, self.early, self.writes = late, early, writes
        self.events = ()
        self.view = self.engine.add_view(dense(0, 16))
        self.engine.allocate(9, HOST if late == HOST else early, 16, 0, 0)
        self.engine.launch(early, [(9, self.view, writes[0])], 1)
        self.epoch = self.engine.now(early)

    def wait(self, site, waiter, **kwargs):
        defaults = {
            "target": 0, "event": 0, "acquired": self.engine.clock(self.early), "by_event": False, "origins": BY_NAME,
            "current": HOST, "recorded": NOT_RECORDED,
        }  # fmt: skip
        values = {**defaults, **kwargs}
        self.history.add_wait(Wait(site, waiter, submitted=self.engine.submitted(), **values))

    def finding(self):
        if self.late == HOST:
            (race,) = self.engine.host_access(9, self.view, 2, is_write=self.writes[1])
        else:
            (race,) = self.engine.launch(self.late, [(9, self.view, self.writes[1])], 2)
        parts = (self.engine, self.history, self.collector.names, self.events)
        self.collector.add(explain(RaceContext(race, *self.labels, TensorRef(9, 0), *parts)))
        (found,) = self.collector.findings(Text("\n" * 40))
        return found

    def blamed(self):
        finding = self.finding()
        return finding.rule.code, finding.location.frame.line


# -- the basic rules


@pytest.mark.parametrize(
    ("writes", "code"), [((True, False), "SYN101"), ((False, True), "SYN102"), ((True, True), "SYN103")]
)
def test_without_a_better_reason_the_kinds_of_access_decide(writes, code):
    raced = Raced(writes=writes)
    finding = raced.finding()
    assert (finding.rule.code, finding.location.frame.line) == (code, LATE)
    assert [location.frame.line for location in finding.related] == [EARLY]
    assert "`x` (4 float32, 16 bytes)" in finding.message
    assert "stream `late` (cuda:0)" in finding.message
    assert "stream `early` (cuda:0)" in finding.message


def test_a_use_before_the_allocation_is_ready_is_a_first_use():
    raced = Raced()
    raced.engine.allocate(10, 2, 16, 0, 3)
    (race,) = raced.engine.launch(3, [(10, raced.view, True)], 2)
    assert race.is_first_use
    parts = (raced.engine, raced.history, raced.collector.names)
    pending = explain(RaceContext(race, *raced.labels, TensorRef(10, 0), *parts))
    assert pending.rule.code == "SYN104"
    assert pending.allocation == 10


def test_the_fix_is_a_wait_before_the_late_access_or_after_the_early_one():
    raced = Raced()
    (race,) = raced.engine.launch(3, [(9, raced.view, False)], 2)
    fix = explain(
        RaceContext(race, *raced.labels, TensorRef(9, 0), raced.engine, raced.history, raced.collector.names)
    ).fix
    assert (fix.edits[0].site, fix.after, fix.is_unsafe) == (LATE, EARLY, False)
    group, last = list(fix.choices())[1:]
    assert (group.edits[0].site, group.edits[0].code[-2]) == (LATE, GroupCode(NamedKind.STREAM_GROUP, 2))
    assert (last.edits[0].site, last.is_unsafe) == (EARLY, True)


def test_a_default_stream_that_comes_after_the_early_access_stands_in_for_an_unnamed_stream():
    raced = Raced()
    raced.engine.wait_stream(1, 2)
    (race,) = raced.engine.launch(3, [(9, raced.view, False)], 2)
    parts = (raced.engine, raced.history, raced.collector.names)
    fix = explain(RaceContext(race, *raced.labels, TensorRef(9, 0), *parts)).fix
    awaited = [choice.edits[0].code[-2] for choice in fix.choices()]
    assert awaited[:2] == [StreamCode(2), StreamCode(1)]


def test_the_fix_waits_for_an_event_after_the_early_access_if_there_is_one():
    raced = Raced()
    raced.events = (7,)
    (race,) = raced.engine.launch(3, [(9, raced.view, False)], 2)
    parts = (raced.engine, raced.history, raced.collector.names, raced.events)
    choices = list(explain(RaceContext(race, *raced.labels, TensorRef(9, 0), *parts)).fix.choices())
    kinds = [(choice.edits[0].kind, ".wait_event(" in choice.edits[0].code) for choice in choices]
    before, after = EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER
    assert kinds == [(before, True), (before, False), (before, False), (after, False)]
    assert choices[0].edits[0].code[2] == EventCode(7)


# -- the host


@pytest.mark.parametrize(("is_write", "code"), [(False, "SYN301"), (True, "SYN302")])
def test_the_host_accesses_memory_in_flight(is_write, code):
    raced = Raced(late=HOST, writes=(True, is_write))
    finding = raced.finding()
    assert (finding.rule.code, finding.level) == (code, Severity.ERROR)
    assert "record an event after the copy" in finding.help


def test_an_event_that_covers_the_copy_is_synchronized():
    raced = Raced(late=HOST)
    raced.events = (7,)
    raced.collector.names.given[NamedKind.EVENT, 7] = "done"
    assert raced.finding().fix.edits[0].code.endswith("event>.synchronize()")  # the event has no name in an empty file


def test_memory_that_escapes_to_the_host_is_a_warning():
    raced = Raced(late=HOST)
    raced.labels[1] = Label(LATE, "Tensor.numpy()", is_escape=True)
    assert raced.finding().level is Severity.WARNING


def test_a_write_detected_afterwards_is_fixed_by_waiting_after_the_copy():
    raced = Raced(late=HOST, writes=(False, True), operators=("aten::copy_", UNSEEN_WRITE))
    finding = raced.finding()
    (edit,) = finding.fix.edits
    assert (edit.kind, edit.line) == (EditKind.INSERT_AFTER, EARLY)
    assert finding.fix.applicability is not Applicability.SAFE
    assert "between that copy and line 20" in finding.help


def places_of(raced):
    """Return the lines next to which a wait may be inserted, best first."""
    (race,) = raced.engine.launch(raced.late, [(9, raced.view, False)], 2)
    parts = (raced.engine, raced.history, raced.collector.names, raced.events)
    fix = classify.stream_wait(RaceContext(race, *raced.labels, TensorRef(9, 0), *parts))
    return [choice.edits[0].site for choice in fix.choices()]


def test_a_wait_stands_where_the_tensor_was_handed_over():
    raced = Raced()
    raced.engine.record_stream(9, raced.late, Note(15, 0, raced.engine.now(raced.early)))
    assert places_of(raced) == [15, 15, LATE, LATE, EARLY]


@pytest.mark.parametrize("stream", [2, 3])
def test_a_tensor_recorded_earlier_or_for_another_stream_was_not_handed_over(stream):
    raced = Raced()
    epoch = raced.engine.now(raced.early)
    raced.engine.record_stream(9, stream, Note(15, 0, epoch - TICK if stream == raced.late else epoch))
    assert 15 not in places_of(raced)


# -- the special rows


def test_an_event_wait_mistaken_for_a_host_wait_is_blamed():
    raced = Raced(late=HOST)
    raced.wait(15, 3, by_event=True, event=7)
    assert raced.blamed() == ("SYN402", 15)


def test_a_wait_for_the_wrong_device_is_blamed():
    raced = Raced(devices=2, late=HOST)
    raced.history.add_sync(HostSync(15, 0, raced.engine.submitted()))
    assert raced.blamed() == ("SYN502", 15)


def test_a_wait_for_the_right_device_explains_nothing():
    raced = Raced(devices=2, late=HOST)
    raced.history.add_sync(HostSync(15, 1, raced.engine.submitted()))
    assert raced.blamed() == ("SYN301", LATE)


@pytest.mark.parametrize(
    ("late_write", "replays", "blamed"),
    [
        (True, (True, False), (LATE, "overwrites")),
        (False, (True, False), (LATE, "reads")),
        (False, (False, True), (EARLY, "writes")),
    ],
)
def test_the_programs_own_access_is_blamed_for_a_race_with_a_replay(late_write, replays, blamed):
    raced = Raced(writes=(True, late_write))
    raced.labels = [label._replace(is_replay=is_replay) for label, is_replay in zip(raced.labels, replays, strict=True)]
    finding = raced.finding()
    assert (finding.rule.code, finding.location.frame.line) == ("SYN903", blamed[0])
    assert blamed[1] in finding.message


def test_a_host_access_racing_with_a_replay_uses_the_basic_rule():
    raced = Raced(late=HOST)
    raced.labels[0] = raced.labels[0]._replace(is_replay=True)
    assert raced.blamed() == ("SYN301", LATE)


@pytest.mark.parametrize(("is_write", "code"), [(False, "SYN601"), (True, "SYN602")])
def test_an_unawaited_collective_on_a_stream_of_torch_is_blamed(is_write, code):
    raced = Raced(writes=(True, is_write), operators=("c10d::allreduce_", "aten::mul_"))
    raced.collector.names.streams[2] = StreamInfo(0, 77, 0)
    finding = raced.finding()
    assert finding.rule.code == code
    assert "`all_reduce`" in finding.message
    assert finding.related[0].frame.line == EARLY


def test_a_collective_on_a_stream_of_the_program_is_ordinary_work():
    assert Raced(operators=("c10d::allreduce_", "aten::mul_")).blamed() == ("SYN101", LATE)


def lose_record(raced):
    raced.history.add_lost(LostRecord(7, 2, 11, 12, raced.engine.clock(2)))


def test_a_lost_record_is_blamed_if_its_event_was_waited_for():
    raced = Raced()
    lose_record(raced)
    assert raced.blamed() == ("SYN101", LATE)
    for waiter, acquired, expected in (
        (3, [0], ("SYN405", 12)),
        (1, [0], ("SYN101", LATE)),
        (3, None, ("SYN101", LATE)),
    ):
        raced = Raced()
        lose_record(raced)
        raced.wait(13, waiter, event=7, acquired=acquired)
        assert raced.blamed() == expected


def test_a_lost_record_is_blamed_if_the_host_waited_for_its_event():
    raced = Raced(late=HOST)
    lose_record(raced)
    raced.history.add_sync(HostSync(13, 0, raced.engine.submitted(), event=7))
    assert raced.blamed() == ("SYN405", 12)


CURRENT = StreamOrigin.CURRENT


@pytest.mark.parametrize(
    ("waiter", "wait", "blamed"),
    [
        # late.wait_stream(current_stream()) when the stream that was looked up is no longer the one at work
        (3, {"target": 1, "origins": ("", CURRENT), "current": 2}, ("SYN406", 15)),
        (3, {"target": 3, "origins": ("", CURRENT)}, ("SYN406", 15)),
        (3, {"target": 1, "origins": ("", ""), "current": 2}, ("SYN101", LATE)),  # named by the program
        (3, {"target": 1, "origins": ("", CURRENT), "current": 1}, ("SYN101", LATE)),
        # the event was recorded on a stream that was looked up
        (3, {"recorded": (1, 14, CURRENT, 2)}, ("SYN406", 14)),
        (3, {"recorded": (1, 14, "", 2)}, ("SYN101", LATE)),
        # the waiting stream is not the current one
        (1, {"target": 2, "origins": (CURRENT, ""), "current": 3}, ("SYN406", 15)),
        (1, {"target": 2, "origins": (CURRENT, ""), "current": 1}, ("SYN101", LATE)),
        (1, {"target": 2, "origins": (CURRENT, ""), "current": 3, "acquired": None}, ("SYN101", LATE)),
    ],
)
def test_a_stale_stream_lookup_is_blamed(waiter, wait, blamed):
    raced = Raced()
    raced.wait(15, waiter, **wait)
    assert raced.blamed() == blamed


def test_an_event_that_the_waiting_stream_recorded_itself_is_pointed_at():
    raced = Raced()
    raced.collector.names.given[NamedKind.EVENT, 7] = "done"
    raced.wait(15, 3, event=7, recorded=(3, 14, "", 3))
    finding = raced.finding()
    assert (finding.rule.code, finding.location.frame.line) == ("SYN101", LATE)
    note = (
        "`done` is recorded here on stream `late` (cuda:0), which waits for it itself: it does not cover stream `early`"
    )
    assert [(other.frame.line, note in other.message) for other in finding.related] == [(EARLY, False), (14, True)]
    assert finding.help.endswith(", or record `done` on stream `early` (cuda:0)")


def test_an_event_of_a_third_stream_is_not_pointed_at():
    raced = Raced()
    raced.wait(15, 3, event=7, recorded=(1, 14, "", 3))
    assert [other.frame.line for other in raced.finding().related] == [EARLY]


LATE_STREAM = "stream `late` (cuda:0)"


@pytest.mark.parametrize(
    ("waiter", "wait", "message", "advice"),
    [
        (
            2,
            {"target": 2, "origins": (CURRENT, ""), "current": 2},
            "names stream `early` (cuda:0) as the waiting stream, which waits for itself, but",
            f"use {LATE_STREAM} as the waiting stream at line 15: look it up where its work is submitted",
        ),
        (
            1,
            {"target": 2, "origins": (CURRENT, ""), "current": 3},
            "names the default stream of cuda:0 as the waiting stream, but",
            f"use `torch.cuda.current_stream()` as the waiting stream at line 15, where {LATE_STREAM} is current",
        ),
        (
            3,
            {"target": 3, "origins": ("", CURRENT)},
            f"names {LATE_STREAM}, which waits for itself, but",
            "use stream `early` (cuda:0) at line 15: look it up where its work is submitted",
        ),
    ],
)
def test_the_wrong_one_of_two_streams_is_described_by_its_role(waiter, wait, message, advice):
    raced = Raced()
    raced.wait(15, waiter, **wait)
    finding = raced.finding()
    assert message in finding.message
    assert finding.help == advice


def test_the_most_specific_row_takes_precedence():
    """An unawaited collective is reported as such, no matter what else was synchronized."""
    raced = Raced(operators=("c10d::allreduce_", "aten::sum"), devices=2)
    raced.collector.names.streams[2] = StreamInfo(1, 77, 0)
    raced.history.add_sync(HostSync(15, 0, raced.engine.submitted()))
    assert raced.blamed() == ("SYN601", LATE)


def test_every_rule_that_a_race_can_become_is_listed():
    codes = {rule.code for rule in classify.RULES}
    assert codes >= {f"SYN{number}" for number in (101, 102, 103, 104, 301, 302, 402, 405, 406, 502, 601, 602, 903)}
