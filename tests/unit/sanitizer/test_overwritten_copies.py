"""Host reads of a copy that a later copy overwrites."""

from dataclasses import replace

import pytest

from syncheck.rules import host_read_in_flight
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.fixes import PendingFix, insertion
from syncheck.sanitizer.overwritten_copies import with_other_buffer
from tests.unit.sanitizer.program import Text

COPY, RECORD, READ = 10, 12, 20


def pending(record):
    fix = PendingFix((insertion(READ, "done.synchronize()"),))
    related = [(COPY, ("written here",)), (record, ("`done`", " is recorded here, before `copy_`"))]
    return PendingFinding(host_read_in_flight.RULE, READ, {}, related, ("or else",), fix, early_record=record)


def test_the_advice_is_to_read_before_the_next_copy():
    found = with_other_buffer(pending(RECORD), Text("\n" * 30))
    assert found.fix is None
    assert found.advice[0].startswith(f"the copy at line {COPY} overwrites what the host has not read yet")
    assert found.related[0] == (COPY, ("written here",))
    assert found.related[1] == (RECORD, ("`done`", " is recorded here, for the copy of an earlier iteration"))


@pytest.mark.parametrize("record", [COPY, COPY - 2])
def test_a_record_that_stands_before_the_copy_is_of_the_same_iteration(record):
    given = pending(record)
    assert with_other_buffer(given, Text("\n" * 30)) is given


def test_a_record_in_another_function_says_nothing_about_iterations():
    text = Text("\n" * 30)
    plain = text.location

    def location(site):
        found = plain(site)
        return replace(found, frame=replace(found.frame, function="g")) if site == RECORD else found

    text.location = location
    given = pending(RECORD)
    assert with_other_buffer(given, text) is given
