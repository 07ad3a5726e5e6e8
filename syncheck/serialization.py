"""Findings as plain data and back: for traces, the linter's cache, and what one process sends to another."""

from dataclasses import asdict
from typing import Any

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Place, Summary
from syncheck.rules import catalogue
from syncheck.rules.model import Severity


def of_place(place: Place) -> dict[str, Any]:
    """Return a place as data that JSON takes."""
    return asdict(place)


def to_place(data: dict[str, Any]) -> Place:
    """Return the place that `of_place` gave as data.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    stack = tuple(Frame(**frame) for frame in data["stack"])
    excerpt = tuple((int(number), str(text)) for number, text in data["excerpt"])
    return Place(Frame(**data["frame"]), str(data["message"]), excerpt, stack)


def of_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding as data that JSON takes."""
    return {
        "rule": finding.rule.code, "place": of_place(finding.place), "message": finding.message, "help": finding.help,
        "related": [of_place(place) for place in finding.related], "level": finding.level.value,
        "count": finding.count, "half": finding.source, "rank": finding.rank, "ranks": finding.ranks,
        "fix": None if finding.fix is None else of_fix(finding.fix),
    }  # fmt: skip


def to_finding(data: dict[str, Any]) -> Finding:
    """Return the finding that `of_finding` gave as data.

    Raises:
        KeyError, TypeError, ValueError, ConfigError: the data is damaged.
    """
    return Finding(
        rule=catalogue.find(data["rule"]),
        place=to_place(data["place"]),
        message=str(data["message"]),
        help=str(data["help"]),
        related=tuple(map(to_place, data["related"])),
        count=int(data["count"]),
        source=data["half"],
        rank=int(data["rank"]),
        level=Severity(data["level"]),
        ranks=tuple(int(rank) for rank in data.get("ranks", ())),
        fix=to_fix(data["fix"]) if data.get("fix") is not None else None,
    )


def of_fix(fix: Fix) -> dict[str, Any]:
    """Return a fix as data that JSON takes."""
    return {
        "applicability": fix.applicability.value,
        "edits": [asdict(edit) | {"kind": edit.kind.value} for edit in fix.edits],
    }


def to_fix(data: dict[str, Any]) -> Fix:
    """Return the fix that `of_fix` gave as data.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    edits = tuple(Edit(**(edit | {"kind": EditKind(edit["kind"])})) for edit in data["edits"])
    return Fix(edits, Applicability(data["applicability"]))


def of_summary(summary: Summary) -> dict[str, Any]:
    """Return a summary as data that JSON takes."""
    return asdict(summary)


def to_summary(data: dict[str, Any]) -> Summary:
    """Return the summary that `of_summary` gave as data.

    Raises:
        TypeError: the data is damaged.
    """
    return Summary(**data)
