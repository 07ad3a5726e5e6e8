"""Conversion of findings to plain data and back, for traces, the linter's cache and other processes."""

from dataclasses import asdict
from typing import Any, Literal

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Location, Summary
from syncheck.rules import catalogue
from syncheck.rules.model import Severity
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from syncheck.witness.schedule import LaunchId, Pair


def of_location(location: Location) -> dict[str, Any]:
    """Return a location as JSON-compatible data."""
    return asdict(location)


def to_location(data: dict[str, Any]) -> Location:
    """Return the location from the data of `of_location`.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    stack = tuple(map(_to_frame, data["stack"]))
    excerpt = tuple((int(number), str(text)) for number, text in data["excerpt"])
    return Location(_to_frame(data["frame"]), str(data["message"]), excerpt, stack)


def _to_frame(data: dict[str, Any]) -> Frame:
    column, end_line, end_column = (int(data.get(name, 0)) for name in ("column", "end_line", "end_column"))
    function, source = (str(data.get(name, "")) for name in ("function", "source"))
    is_user = bool(data.get("is_user", True))
    return Frame(str(data["path"]), int(data["line"]), column, end_line, end_column, function, source, is_user)


def of_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON-compatible data."""
    return {
        "rule": finding.rule.code, "place": of_location(finding.location),
        "message": finding.message, "help": finding.help,
        "related": [of_location(location) for location in finding.related], "level": finding.level.value,
        "count": finding.count, "half": finding.source, "rank": finding.rank, "ranks": finding.ranks,
        "fix": None if finding.fix is None else of_fix(finding.fix),
        "pair": None if finding.pair is None else [str(launch) for launch in finding.pair],
        "proof": None if finding.proof is None else of_proof(finding.proof),
        "assumptions": finding.assumptions,
    }  # fmt: skip


def to_finding(data: dict[str, Any]) -> Finding:
    """Return the finding from the data of `of_finding`.

    Raises:
        KeyError, TypeError, ValueError, ConfigError: the data is damaged.
    """
    return Finding(
        rule=catalogue.find(data["rule"]),
        location=to_location(data["place"]),
        message=str(data["message"]),
        help=str(data["help"]),
        related=tuple(map(to_location, data["related"])),
        count=int(data["count"]),
        source=_half(data["half"]),
        rank=int(data["rank"]),
        level=Severity(data["level"]),
        ranks=tuple(int(rank) for rank in data.get("ranks", ())),
        fix=to_fix(data["fix"]) if data.get("fix") is not None else None,
        pair=Pair(*map(LaunchId.of, data["pair"])) if data.get("pair") is not None else None,
        proof=to_proof(data["proof"]) if data.get("proof") is not None else None,
        assumptions=tuple(map(str, data.get("assumptions", ()))),
    )


def _half(text: Any) -> Literal["run", "lint"]:
    if text not in ("run", "lint"):
        raise ValueError(f"there is no half {text!r}")
    return text  # type: ignore[no-any-return]  # one of the two


def of_proof(proof: Proof) -> dict[str, Any]:
    """Return a proof as JSON-compatible data."""
    return asdict(proof) | {"outcome": proof.outcome.value, "differences": [asdict(one) for one in proof.differences]}


def to_proof(data: dict[str, Any]) -> Proof:
    """Return the proof from the data of `of_proof`.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    if data["means"] not in ("schedule", "delay"):
        raise ValueError(f"there are no means {data['means']!r}")
    changed = tuple(Difference(str(one["what"]), str(one["usual"]), str(one["other"])) for one in data["differences"])
    outcome, tried, reason = ProofOutcome(data["outcome"]), str(data["tried"]), str(data["reason"])
    return Proof(outcome, data["means"], tried, reason, changed, str(data.get("command", "")))


def of_fix(fix: Fix) -> dict[str, Any]:
    """Return a fix as JSON-compatible data."""
    return {
        "applicability": fix.applicability.value,
        "edits": [asdict(edit) | {"kind": edit.kind.value} for edit in fix.edits],
    }


def to_fix(data: dict[str, Any]) -> Fix:
    """Return the fix from the data of `of_fix`.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    return Fix(tuple(map(_to_edit, data["edits"])), Applicability(data["applicability"]))


def _to_edit(data: dict[str, Any]) -> Edit:
    line, column = int(data["line"]), int(data["column"])
    return Edit(EditKind(data["kind"]), str(data["path"]), line, column, str(data["code"]), str(data["old"]))


def of_summary(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON-compatible data."""
    return asdict(summary)


def to_summary(data: dict[str, Any]) -> Summary:
    """Return the summary from the data of `of_summary`.

    Raises:
        KeyError, TypeError, ValueError: the data is damaged.
    """
    operators, streams, devices, files, ranks = (int(data.get(name, 0)) for name in _NUMBERS)
    used = tuple(map(str, data.get("used", ())))
    return Summary(str(data["backend"]), operators, streams, devices, float(data["seconds"]), files, ranks, used)


_NUMBERS = ("operators", "streams", "devices", "files", "ranks")
