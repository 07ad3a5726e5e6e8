"""Findings in calls of functions of other files."""

import ast

import pytest

from syncheck.lint.interp.imported_calls import ImportedCall, ImportedCalls
from syncheck.rules import lost_event_record, unordered_read
from syncheck.sanitizer.collector import PendingFinding

HERE, ELSEWHERE = 3, 7


@pytest.fixture
def calls():
    return ImportedCalls()


def finding(*others, rule=unordered_read.RULE):
    return PendingFinding(rule, HERE, {}, [(site, "") for site in others])


def failing(calls, call):
    with calls.run(call):
        assert calls.running is call
        raise KeyError


def test_a_call_runs_in_its_block(calls):
    with pytest.raises(KeyError):
        failing(calls, ImportedCall(ast.parse("f()").body[0], "", 0))
    assert calls.running is None


def test_a_finding_with_a_place_outside_of_the_call_is_its_callers(calls):
    calls.note(finding(HERE, ELSEWHERE), HERE)
    assert calls.of_other_files() == set()


@pytest.mark.parametrize("others", [(), (HERE,), (0,)])
def test_a_finding_without_one_is_the_other_files(calls, others):
    calls.note(finding(*others), HERE)
    assert calls.of_other_files() == {("SYN101", HERE)}


def test_one_of_both_kinds_is_reported(calls):
    calls.note(finding(), HERE)
    calls.note(finding(ELSEWHERE), HERE)
    assert calls.of_other_files() == set()


def test_how_the_other_file_uses_its_events_is_its_own(calls):
    calls.note(finding(ELSEWHERE, rule=lost_event_record.RULE), HERE)
    assert len(calls.of_other_files()) == 1
