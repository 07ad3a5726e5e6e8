"""Findings inside calls of imported functions."""

import ast

import pytest

from syncheck.lint.interp.imported_calls import ImportedCall, ImportedCalls
from syncheck.rules import lost_event_record, unordered_read
from syncheck.sanitizer.collector import PendingFinding

HERE, ELSEWHERE = 3, 7


CALL = ImportedCall(ast.parse("f()").body[0], "g", 1)


@pytest.fixture
def calls():
    return ImportedCalls()


@pytest.fixture
def running(calls):
    with calls.run(CALL):
        yield calls


def finding(*others, rule=unordered_read.RULE):
    return PendingFinding(rule, HERE, {}, [(site, "") for site in others])


def failing(calls, call):
    with calls.run(call):
        assert calls.running is call
        raise KeyError


def test_a_call_is_running_only_within_its_block(calls):
    with pytest.raises(KeyError):
        failing(calls, CALL)
    assert calls.running is None


def test_a_finding_with_a_place_outside_of_the_call_belongs_to_the_caller(running):
    running.note(finding(HERE, ELSEWHERE), HERE)
    assert running.of_other_files() == set()


@pytest.mark.parametrize("others", [(), (HERE,), (0,)])
def test_a_finding_without_an_outside_place_belongs_to_the_other_file(running, others):
    running.note(finding(*others), HERE)
    assert running.of_other_files() == {("SYN101", HERE)}


def test_a_finding_of_both_kinds_is_reported(running):
    running.note(finding(), HERE)
    running.note(finding(ELSEWHERE), HERE)
    assert running.of_other_files() == set()


def test_event_misuse_inside_the_other_file_belongs_to_that_file(running):
    running.note(finding(ELSEWHERE, rule=lost_event_record.RULE), HERE)
    assert len(running.of_other_files()) == 1


def test_code_in_another_file_is_attributed_to_the_call(calls):
    node, outer = ast.parse("x"), [(ast.parse("a()"), "main"), (CALL.node, "g"), (ast.parse("b()"), "f")]
    assert calls.seen_from(node, "h") == (node, "h")
    assert calls.callers(outer) == outer
    with calls.run(CALL):
        assert calls.seen_from(node, "h") == (CALL.node, "g")
        assert calls.callers(outer) == outer[:1]


def test_findings_of_the_analyzed_file_are_reported(calls):
    calls.note(finding(), HERE)
    assert calls.of_other_files() == set()
