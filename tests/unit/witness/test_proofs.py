"""Outcomes of `--witness` for the races of a report, with fake runs."""

import dataclasses
import re

import pytest

from syncheck.commands.witness import prove
from syncheck.config.options import Options
from syncheck.findings import Finding, Frame, Location, Report
from syncheck.rules import catalogue
from syncheck.serialization import of_finding, to_finding
from syncheck.witness.compare import Rerun
from syncheck.witness.delay import Delay
from syncheck.witness.proofs import ProofOutcome
from syncheck.witness.record import Record, Values
from syncheck.witness.schedule import Hold, LaunchId, Pair, Schedule

PAIR = Pair(LaunchId(3, 1), LaunchId(1, 4))
ENDED = Record(order=[f"3.{number}" for number in range(1, 1001)], has_ended=True)


def race(code="SYN101", number=1):
    location = Location(Frame("train.py", number))
    return Finding(catalogue.find(code), location, "a race", pair=Pair(LaunchId(3, number), LaunchId(1, 4)))


def ran(*lines, **changed):
    return dataclasses.replace(Rerun(lines, 0, "", (ENDED,)), **changed)


class Reruns:
    """Runs of a program that does not exist.

    Attributes:
        asked: schedules of the runs so far.
    """

    program = 7

    def __init__(self, reference, other=None, repeat=None, **options):
        self.options = Options(witness=True, **options)
        self.reference, self.repeat, self.other = reference, repeat or reference, other or reference
        self.schedules = []

    def command_for(self, schedule):
        return f"syncheck run --schedule {schedule} train.py"

    def run(self, schedule, pairs=()):
        self.schedules.append(schedule)
        if schedule == Schedule(7):
            return self.repeat if len(self.schedules) == 2 else self.reference
        return self.other


def proof(reruns, *findings):
    return prove(Report(findings=findings or (race(),)), reruns).findings[0].proof


def test_a_changed_value_is_shown_with_the_schedule_that_changes_it():
    reruns = Reruns(ran("loss 1"), ran("loss 0"))
    found = proof(reruns)
    assert found.outcome is ProofOutcome.SHOWN
    assert Schedule.parse(found.tried).holds == (Hold(LaunchId(3, 1), LaunchId(1, 4)),)
    assert found.summary == (
        "Proof: shown by running the two accesses in the other order: printed line 1: 'loss 0', not 'loss 1'; "
        f"reproduce with: syncheck run --schedule {found.tried} train.py"
    )


def test_a_race_that_changes_nothing_is_not_shown():
    assert proof(Reruns(ran("loss 1"))).outcome is ProofOutcome.NOT_SHOWN


def test_a_run_that_fails_before_the_race_proves_nothing():
    found = proof(Reruns(ran(status=1, error="FileExistsError: once", records=(Record(has_ended=True),))))
    assert found.outcome is ProofOutcome.NOT_TRIED
    assert found.reason == "the accesses did not recur when the program was rerun: FileExistsError: once"


def test_an_error_in_the_other_order_is_shown():
    found = proof(Reruns(ran(), ran(status=1, error="IndexError: out of range", records=())))
    assert found.differences[0].other == "IndexError: out of range"


SAME_ORDER = Record(order=["3.1", "1.4"], forced=["a collective cannot be deferred"], has_ended=True)


@pytest.mark.parametrize(
    ("reruns", "reason"),
    [
        (
            Reruns(ran("1"), repeat=ran("1", records=(Record(host=[Values(1, ("1",), 1, "a.py:3")]),))),
            "not deterministic",
        ),
        (Reruns(ran(records=(), timed_out=True)), "longer than --proof-limit"),
        (Reruns(ran(status=1, error="no such file", records=())), "did not finish .*: no such file"),
        (Reruns(ran(), ran(timed_out=True, records=())), "longer than --proof-limit"),
        (Reruns(ran(), ran(records=(SAME_ORDER,))), "a collective cannot be deferred"),
    ],
)
def test_the_reason_for_not_trying_is_reported(reruns, reason):
    found = proof(reruns)
    assert found.outcome is ProofOutcome.NOT_TRIED
    assert re.search(reason, found.reason)


def test_the_first_races_of_each_rule_are_tried_before_others():
    findings = [race("SYN101", number) for number in range(1, 1000)] + [race("SYN201", 1000)]
    reruns = Reruns(ran())
    found = prove(Report(findings=tuple(findings)), reruns).findings
    tried = [finding for finding in found if finding.proof.outcome is not ProofOutcome.NOT_TRIED]
    assert len(reruns.schedules) == 2 + 2 * 20  # twice in the program's order, then by two schedules for each race
    assert (len(tried), found[0] in tried, found[-1] in tried) == (20, True, True)
    assert "only 20 races" in found[500].proof.reason


def test_a_finding_that_is_not_a_race_has_no_proof():
    advice = dataclasses.replace(race("SYN303"), pair=None)
    reruns = Reruns(ran())
    assert proof(reruns, advice) is None
    assert not reruns.schedules


def test_random_schedules_are_tried_without_a_finding():
    note = prove(Report(), Reruns(ran("1"), ran("2"), schedules=3, seed=5)).notes[0]
    assert note.startswith("3 of 3 random schedules give different results; with --schedule s1-000007-r5-")
    assert prove(Report(), Reruns(ran("1"), schedules=3)).notes == (
        "3 random schedules: all results match the program's order",
    )


def test_a_proof_survives_serialization():
    shown = prove(Report(findings=(race(),)), Reruns(ran("1"), ran("2"))).findings[0]
    assert to_finding(of_finding(shown)) == shown


LATE = Record(
    order=["1.4", "3.1"], starts={"3.1": "3.1"}, submitted={"3.1": 1.0, "1.4": 1.6}, delayed=1, has_ended=True
)


class OnGpus(Reruns):
    """Runs on real GPUs of a program that does not exist."""

    def __init__(self, reference, other=None, repeat=None):
        super().__init__(reference, other, repeat)
        self.options = Options(confirm=True)

    def run(self, schedule, pairs=()):
        self.schedules.append(schedule)
        if schedule == Delay(7):
            return self.repeat if len(self.schedules) == 2 else self.reference
        return self.other


def test_a_value_changed_by_a_delay_is_confirmed_with_the_delay():
    one, other = (dataclasses.replace(LATE, host=[Values(n, (str(n),), 1, "a.py:3")]) for n in (1, 0))
    reruns = OnGpus(ran("loss 1", records=(one,)), ran("loss 0", records=(other,)))
    found = proof(reruns)
    assert Delay.parse(found.tried) == Delay(7, LaunchId(3, 1), 1200)  # twice the time between the two accesses
    assert found.summary == (
        "Proof: confirmed with a delay before the earlier access: 1.2 s: printed line 1: 'loss 0', not 'loss 1'; "
        "what the host gets at a.py:3: 0, not 1; "
        f"reproduce with: syncheck run --schedule {found.tried} train.py"
    )


def test_changed_output_alone_is_not_proof_on_real_gpus():
    found = proof(OnGpus(ran("0.1 s", records=(LATE,)), ran("0.6 s", records=(LATE,))))
    assert found.outcome is ProofOutcome.NOT_SHOWN


def test_a_crash_under_the_delay_counts_in_a_nondeterministic_program():
    reference, repeat = (
        ran(records=(dataclasses.replace(LATE, host=[Values(n, (str(n),), 1, "a.py:3")]),)) for n in (1, 2)
    )
    found = proof(OnGpus(reference, ran(status=1, error="illegal memory access", records=()), repeat))
    assert [one.other for one in found.differences] == ["illegal memory access"]


def test_a_loop_is_tried_with_a_delay_at_each_later_call():
    reruns = OnGpus(ran("loss 1", records=(LATE,)))
    found = proof(reruns)
    assert (found.outcome, Delay.parse(found.tried).is_repeated) == (ProofOutcome.NOT_SHOWN, False)
    assert [schedule.is_repeated for schedule in reruns.schedules] == [False, False, False, True]


def test_only_the_accesses_count_in_a_nondeterministic_program_on_real_gpus():
    reference, repeat = (
        ran(records=(dataclasses.replace(LATE, host=[Values(n, (str(n),), 1, "a.py:3")]),)) for n in (1, 2)
    )
    read = dataclasses.replace(LATE, read={"1.4": [Values(5, ("5",), 1)]})
    assert proof(OnGpus(reference, repeat=repeat)).outcome is ProofOutcome.NOT_SHOWN
    before = dataclasses.replace(
        reference, records=(dataclasses.replace(reference.records[0], read={"1.4": [Values(3, ("3",), 1)]}),)
    )
    found = proof(
        OnGpus(
            before,
            ran(records=(read,)),
            dataclasses.replace(before, records=(dataclasses.replace(before.records[0], host=[]),)),
        )
    )
    assert [(one.usual, one.other) for one in found.differences] == [("3", "5")]


class Racing(OnGpus):
    """Runs of a program whose race shows by itself in every second run, unless one of the two accesses is delayed."""

    def __init__(self, in_order):
        super().__init__(ran())
        self.in_order = list(in_order)

    def run(self, schedule, pairs=()):
        self.schedules.append(schedule)
        if schedule.launch == LaunchId(1, 4):
            value = self.in_order.pop(0)
        else:
            value = 0 if schedule.launch is not None else len(self.schedules)
        starts = {"3.1": "3.1", "1.4": "1.4"}
        return ran(records=(dataclasses.replace(LATE, starts=starts, read={"1.4": [Values(value, (str(value),), 1)]}),))


def test_a_race_that_shows_by_itself_is_compared_with_runs_that_delay_the_later_access():
    reruns = Racing(in_order=[7, 7])
    found = proof(reruns)
    assert found.outcome is ProofOutcome.SHOWN
    assert [(one.usual, one.other) for one in found.differences] == [("7", "0")]
    assert reruns.schedules[2:4] == [Delay(7, LaunchId(1, 4), 500)] * 2
    assert Delay.parse(found.tried).launch == LaunchId(3, 1)


def test_accesses_that_differ_in_either_order_prove_nothing():
    found = proof(Racing(in_order=[7, 8]))
    assert found.outcome is ProofOutcome.NOT_TRIED
    assert "not deterministic" in found.reason


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (ran(records=(dataclasses.replace(LATE, delayed=0),)), "did not recur in the run with the delay"),
        (ran(records=(dataclasses.replace(LATE, order=["3.1", "1.4"]),)), "the host waits for the earlier access"),
        (
            ran(records=(dataclasses.replace(LATE, failed="KeyError: 3"),)),
            "syncheck failed in the run with the delay: Key",
        ),
        (ran(records=(dataclasses.replace(LATE, starts=dict.fromkeys(("1.4", "3.1"), ""), order=[]),)), "on two GPUs"),
        (ran(status=1, error="torch.OutOfMemoryError: CUDA out of memory.", records=()), "not enough memory"),
    ],
)
def test_the_reason_for_not_trying_a_delay_is_reported(other, reason):
    found = proof(OnGpus(ran(records=(LATE,)), other))
    assert (found.outcome, found.means) == (ProofOutcome.NOT_TRIED, "delay")
    assert reason in found.reason


def test_an_access_without_an_operator_cannot_be_delayed():
    found = proof(OnGpus(ran(records=(dataclasses.replace(LATE, order=[], starts={}),))))
    assert found.reason == "the earlier access is not made by an operator"


def test_an_access_that_a_simulated_gpu_runs_immediately_cannot_be_delayed():
    found = proof(Reruns(ran(records=(Record(has_ended=True),))))
    assert found.outcome is ProofOutcome.NOT_TRIED
    assert (
        found.reason
        == "simulated GPUs run the earlier access immediately, like functional collectives and those of C++ code"
    )


def in_ranks(*pairs):
    """Return a race that several ranks have."""
    ranks = tuple(rank for rank, _ in pairs)
    return dataclasses.replace(race(), ranks=ranks, pair=pairs[0][1], pairs=pairs)


def recorded(pair, text=None):
    """Return the record of a rank in which an access reads a text; with a text the order is reversed."""
    first, second = map(str, reversed(pair) if text else pair)
    read = {str(pair.later): [Values(hash(text), (text or "1",), 1)]}
    return Record(order=[first, second], read=read, has_ended=True)


def test_a_race_of_several_ranks_is_tried_in_each_until_it_is_shown():
    other = Pair(LaunchId(5, 2), LaunchId(2, 8))
    reference = ran(records=(recorded(PAIR), recorded(other)))
    late = ran(records=(recorded(PAIR, "1"), recorded(other, "9")))
    late.records[0].read.clear()
    reruns = Reruns(reference, late, nproc=2)
    found = proof(reruns, in_ranks((0, PAIR), (1, other)))
    assert reruns.schedules[2:] == [
        Schedule(7, (Hold(PAIR.earlier, PAIR.later, 0),)),
        Schedule(7, (Hold(PAIR.earlier, None, 0),)),
        Schedule(7, (Hold(other.earlier, other.later, 1),)),
    ]
    assert [(one.what, one.other) for one in found.differences] == [("in rank 1, what a launch reads", "9")]


def test_a_rank_whose_order_does_not_change_shows_nothing():
    reference = ran(records=(recorded(PAIR), recorded(PAIR)))
    found = proof(Reruns(reference, ran(records=(recorded(PAIR), recorded(PAIR, "9"))), nproc=2), in_ranks((0, PAIR)))
    assert (found.outcome, found.reason) == (ProofOutcome.NOT_TRIED, "the host waits for the earlier access first")


def test_a_collective_is_delayed_on_its_issuing_stream():
    seen = dataclasses.replace(LATE, issuers={"3.1": "1.3"})
    reruns = OnGpus(ran("1", records=(seen,)))
    proof(reruns)
    assert {schedule.issuer for schedule in reruns.schedules[2:]} == {LaunchId(1, 3)}
