"""What `--witness` makes of the races of a report, with runs that are made up."""

import dataclasses
import re

import pytest

from syncheck.commands.witness import prove
from syncheck.config.options import Options
from syncheck.findings import Finding, Frame, Place, Report
from syncheck.rules import catalogue
from syncheck.serialization import of_finding, to_finding
from syncheck.witness.compare import Rerun
from syncheck.witness.proofs import ProofOutcome
from syncheck.witness.record import Record, Values
from syncheck.witness.schedule import Hold, LaunchId, Pair, Schedule

PAIR = Pair(LaunchId(3, 1), LaunchId(1, 4))
ENDED = Record(has_ended=True)


def race(code="SYN101", number=1):
    place = Place(Frame("train.py", number))
    return Finding(catalogue.find(code), place, "a race", pair=Pair(LaunchId(3, number), LaunchId(1, 4)))


def ran(*lines, **changed):
    return dataclasses.replace(Rerun(lines, 0, "", (ENDED,)), **changed)


class Reruns:
    """Runs of a program that does not exist.

    Attributes:
        asked: the schedules by which it was run.
    """

    program = 7

    def __init__(self, usual, other=None, same=None, **options):
        self.options = Options(witness=True, **options)
        self.usual, self.same, self.other = usual, same or usual, other or usual
        self.asked = []

    def run(self, schedule, pairs=()):
        self.asked.append(schedule)
        if schedule == Schedule(7):
            return self.same if len(self.asked) == 2 else self.usual
        return self.other


def proof(reruns, *findings):
    return prove(Report(findings=findings or (race(),)), reruns).findings[0].proof


def test_a_changed_value_is_shown_with_the_schedule_that_changes_it():
    reruns = Reruns(ran("loss 1"), ran("loss 0"))
    found = proof(reruns)
    assert found.outcome is ProofOutcome.SHOWN
    assert Schedule.parse(found.tried).holds == (Hold(LaunchId(3, 1), LaunchId(1, 4)),)
    assert found.in_words == ("shown: with the two accesses in the other order: printed line 1: 'loss 0', not 'loss 1'")


def test_nothing_that_changes_is_not_shown():
    assert proof(Reruns(ran("loss 1"))).outcome is ProofOutcome.NOT_SHOWN


def test_an_error_in_the_other_order_is_shown():
    found = proof(Reruns(ran(), ran(status=1, error="IndexError: out of range", records=())))
    assert found.differences[0].other == "IndexError: out of range"


SAME_ORDER = Record(order=["3.1", "1.4"], forced=["a collective cannot be put off"], has_ended=True)


@pytest.mark.parametrize(
    ("reruns", "reason"),
    [
        (
            Reruns(ran("1"), same=ran("1", records=(Record(host=[Values(1, ("1",), 1, "a.py:3")]),))),
            "not deterministic",
        ),
        (Reruns(ran(records=(), timed_out=True)), "longer than --proof-limit"),
        (Reruns(ran(status=1, error="no such file", records=())), "did not get to its end .*: no such file"),
        (Reruns(ran(), ran(timed_out=True, records=())), "longer than --proof-limit"),
        (Reruns(ran(), ran(records=(SAME_ORDER,))), "a collective cannot be put off"),
    ],
)
def test_why_it_could_not_be_tried(reruns, reason):
    found = proof(reruns)
    assert found.outcome is ProofOutcome.NOT_TRIED
    assert re.search(reason, found.reason)


def test_of_many_races_the_first_of_each_rule_are_tried_before_others():
    findings = [race("SYN101", number) for number in range(1, 1000)] + [race("SYN201", 1000)]
    reruns = Reruns(ran())
    found = prove(Report(findings=tuple(findings)), reruns).findings
    tried = [finding for finding in found if finding.proof.outcome is not ProofOutcome.NOT_TRIED]
    assert len(reruns.asked) == 2 + 2 * 20  # twice in its own order; by two schedules for each race
    assert (len(tried), found[0] in tried, found[-1] in tried) == (20, True, True)
    assert "only 20 races" in found[500].proof.reason


def test_a_finding_that_is_no_race_has_no_proof():
    advice = dataclasses.replace(race("SYN303"), pair=None)
    reruns = Reruns(ran())
    assert proof(reruns, advice) is None
    assert not reruns.asked


def test_random_schedules_are_tried_without_a_finding():
    note = prove(Report(), Reruns(ran("1"), ran("2"), schedules=3, seed=5)).notes[0]
    assert note.startswith("3 of 3 random schedules give other results; with --schedule s1-000007-r5-")
    assert prove(Report(), Reruns(ran("1"), schedules=3)).notes == (
        "3 random schedules: all results are those of the program's order",
    )


def test_a_proof_survives_the_way_to_another_process():
    shown = prove(Report(findings=(race(),)), Reruns(ran("1"), ran("2"))).findings[0]
    assert to_finding(of_finding(shown)) == shown
