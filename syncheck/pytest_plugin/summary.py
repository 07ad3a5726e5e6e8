"""Findings of all tests of a session, across processes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from syncheck import serialization
from syncheck.filters.baseline import Baseline
from syncheck.findings import NOTHING_SEEN, Finding, Report, Summary, counted, merge_equal

_MAX_LOCATIONS = 20


_SELECTING = ("keyword", "markexpr", "deselect", "lf", "stepwise", "ignore", "ignore_glob", "maxfail")
"""pytest's options that select tests, or end a session early."""


class SessionSummary:
    """Findings of all tests.

    Attributes:
        findings: the findings, one for each test that has it.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._tests: set[str] = set()
        self._locations: dict[str, set[str]] = {}
        self._known = 0
        self._operators = 0
        self._backend = ""
        self._incomplete: dict[str, None] = {}

    def add(self, test: str, test_data: dict[str, Any] | None) -> None:
        """Add the data of one test report."""
        if test_data is None:
            return
        findings = [serialization.to_finding(data) for data in test_data["findings"]]
        self.findings += findings
        for finding in findings:
            frame, rule = finding.location.frame, finding.rule
            self._locations.setdefault(f"{frame.path}:{frame.line}: {rule.code} {rule.name}", set()).add(test)
        self._known += test_data["known"]
        self._operators += test_data["operators"]
        self._backend = test_data["backend"]
        self._incomplete.update(dict.fromkeys(test_data["incomplete"]))
        if test_data["findings"]:
            self._tests.add(test)

    def report(self, baseline: Baseline | None) -> Report:
        """Return one report for all tests, without known findings."""
        new = [finding for finding in self.findings if baseline is None or not baseline.contains(finding)]
        summary = Summary(self._backend, self._operators)
        known = len(self.findings) - len(new)
        return Report(merge_equal(new), tuple(self._incomplete), summary=summary, known=known)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        if self.findings:
            rules = Counter(finding.rule.code for finding in self.findings)
            counts = ", ".join(f"{code} {number}" for code, number in sorted(rules.items()))
            yield f"{counted(rules.total(), 'finding')} in {counted(len(self._tests), 'test')}: {counts}"
            locations = sorted(self._locations.items(), key=lambda entry: -len(entry[1]))
            for location, tests in locations[:_MAX_LOCATIONS]:
                yield f"  {location}" + (f" ({len(tests)} tests)" if len(tests) > 1 else "")
            if len(locations) > _MAX_LOCATIONS:
                yield f"  and {len(locations) - _MAX_LOCATIONS} other places"
        elif self._operators:
            yield f"no findings in {self._operators:,} operators"
        else:
            yield NOTHING_SEEN
        if self._known:
            yield f"{self._known} of them are known: they are in the baseline"
        for reason in self._incomplete:
            yield f"incomplete: {reason}"


def runs_whole_suite(session: pytest.Session) -> bool:
    """Return whether a session ran all tests of a project to their end.

    An option or an argument may select some of them. A test that fails may end before it does what it did before.
    """
    options, config = session.config.option, session.config
    is_given = config.args_source is pytest.Config.ArgsSource.ARGS
    selects = any(getattr(options, name, None) for name in _SELECTING)
    return session.exitstatus == pytest.ExitCode.OK and not (
        is_given or selects or session.shouldstop or session.shouldfail
    )
