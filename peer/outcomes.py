"""A pytest plugin that writes each test's outcome and reported rules to a file, one line of JSON per report."""

import json
import os
import re
from pathlib import Path

import pytest

_REPORTED = re.compile(r"^(?:error|warning)\[(SYN\d+)\]", re.MULTILINE)
_ANY_FINDING = re.compile(r"(?:error|warning|advice)\[SYN\d+\]")


def pytest_collection_finish(session):
    _write({"collected": [item.nodeid for item in session.items]})


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    shown = str(report.longrepr) if report.failed else ""
    findings = "\n".join(text for name, text in report.sections if name == "syncheck")
    is_finding = _ANY_FINDING.match(shown) is not None  # syncheck's report replaces the traceback
    _write(
        {
            "test": report.nodeid,
            "passed": report.passed and report.when == "call",
            "skipped": report.skipped,
            "failed": report.failed and not is_finding,
            "codes": _REPORTED.findall(shown if is_finding else findings),
            "why": "" if is_finding else _why(shown),
        }
    )


def _why(shown):
    """Return the first line of an error."""
    lines = [line.removeprefix("E ").strip() for line in shown.splitlines() if line.startswith("E ")]
    return next((line for line in lines if line), shown.strip().partition("\n")[0])


def _write(entry):
    with Path(os.environ["PEER_OUTCOMES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
