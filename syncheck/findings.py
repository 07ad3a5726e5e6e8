"""Findings and reports: plain frozen data passed from the detectors to the renderers."""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from syncheck.rules.model import Rule, Severity
from syncheck.witness.proofs import Proof
from syncheck.witness.schedule import Pair


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a call stack.

    Attributes:
        path: as shown to the user: relative to the working directory if possible, with "/".
        line: first line of the expression, from 1.
        column: first column of the expression, from 1; 0 if unknown.
        end_line: last line of the expression.
        end_column: column after the expression's last character, from 1; 0 if unknown.
        function: qualified name of the function.
        source: the source line `line`, without its line ending; "" if it cannot be read.
        is_user: False for the standard library, torch and installed packages.
    """

    path: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    source: str = ""
    is_user: bool = True

    @property
    def package(self) -> str:
        """The installed package that the file belongs to; "" for user code and the standard library."""
        top = self.path.partition("/")[0].removesuffix(".py")
        return "" if self.is_user or top in sys.stdlib_module_names or top.startswith("<") else top


_TRANSPARENT = frozenset({"", "torch", "triton"})


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's program and a description of what happened there.

    Attributes:
        frame: the innermost user frame.
        message: a short description of what happened there; "" for a primary location.
        excerpt: surrounding source lines as (line number, text), in order; empty if unreadable.
        stack: all frames, innermost first; `frame` is one of them.
    """

    frame: Frame
    message: str = ""
    excerpt: tuple[tuple[int, str], ...] = ()
    stack: tuple[Frame, ...] = ()

    @property
    def author(self) -> Frame | None:
        """The frame of the responsible code: the innermost outside torch, Triton and the standard library."""
        return next((frame for frame in self.stack if frame.is_user or frame.package not in _TRANSPARENT), None)


class Applicability(StrEnum):
    """Whether a fix may be applied without review."""

    SAFE = "safe"
    """Adds ordering and changes nothing else."""
    UNSAFE = "unsafe"
    """Makes the host wait, or guesses the location."""
    EXAMPLE = "example"
    """Illustration only: its code cannot be used as is."""


class EditKind(StrEnum):
    """Kind of an edit."""

    INSERT_BEFORE = "insert-before"
    """Insert a statement before the statement at a line."""
    INSERT_AFTER = "insert-after"
    """Insert a statement after the statement at a line."""
    REPLACE_CALL = "replace-call"
    """Replace a call: `done.wait()` becomes `done.synchronize()`."""
    APPEND_CALL = "append-call"
    """Call a method on the result of a call statement: `start()` becomes `start().wait()`."""
    ADD_ARGUMENT = "add-argument"
    """Pass a keyword argument to a call, replacing one of that name."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a source file.

    Attributes:
        kind: the kind of change.
        path: the file, as in `Frame.path`.
        line: line of the statement or the call, from 1.
        column: column of the call, from 1; 0 if unknown, or if the edit concerns a statement.
        code: a statement, "done.synchronize()", ".wait()" or "enable_timing=True", depending on the kind.
        old: for REPLACE_CALL, the name of the method currently called.
    """

    kind: EditKind
    path: str
    line: int
    column: int
    code: str
    old: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix: its edits are applied together or not at all."""

    edits: tuple[Edit, ...]
    applicability: Applicability


NOTHING_SEEN = "nothing to check: the program launched no GPU work"
NO_FILES = "nothing to check: there is no Python file"
NO_STEPS = "nothing to check: the program ended before the steps of --steps"
NOTHING_CHECKED = frozenset({NOTHING_SEEN, NO_FILES, NO_STEPS})
"""Reasons for an incomplete report that mean that nothing was checked."""

UNKNOWN = Location(Frame("<unknown>", 0))
"""Placeholder for an unknown location."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule at a location.

    Attributes:
        help: suggested action, worded from the fix; "" if there is none.
        fix: the fix as data; None if there is none.
        related: the other locations, most important first.
        count: number of occurrences; repeated findings are merged into one.
        source: the part of syncheck that found it.
        rank: the process's rank in a distributed job, 0 in a single process; the lowest if several ranks found it.
        ranks: all ranks that found it, in order, once the ranks of a job are merged; else empty.
        pair: the accesses of the first occurrence of a race; None for other findings.
        pairs: the same for each of several ranks, by rank.
        proof: result of the attempt to reproduce the race; None if there was none.
        assumptions: assumptions of the linter, in words: "what line 9 copies lies on a GPU".
    """

    rule: Rule
    location: Location
    message: str
    help: str = ""
    related: tuple[Location, ...] = ()
    count: int = 1
    source: Literal["run", "lint"] = "run"
    rank: int = 0
    level: Severity = Severity.ERROR
    ranks: tuple[int, ...] = ()
    fix: Fix | None = None
    pair: Pair | None = None
    pairs: tuple[tuple[int, Pair], ...] = ()
    proof: Proof | None = None
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(cls, rule: Rule, location: Location, **facts: str) -> "Finding":
        """Create a finding by filling the facts into the rule's message.

        Raises:
            ValueError: a fact is missing, or is not a placeholder of the message.
        """
        if facts.keys() != rule.facts:
            wrong = sorted(facts.keys() ^ rule.facts)
            raise ValueError(f"{rule.code} takes the facts {sorted(rule.facts)}; wrong or missing: {wrong}")
        return cls(rule=rule, location=location, message=rule.message.format(**facts), level=rule.severity)

    @property
    def fingerprint(self) -> str:
        """16 hex digits of a hash of rule, path, function and stripped source line: stable when lines move."""
        frame = self.location.frame
        text = "\0".join((self.rule.code, frame.path, frame.function, frame.source.strip()))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    @property
    def locations(self) -> tuple[Location, ...]:
        """The location and the related ones."""
        return (self.location, *self.related)

    @property
    def package(self) -> str:
        """The responsible installed package, if all locations are in installed packages; else ""."""
        authors = [location.author for location in self.locations]
        if any(author is None or author.is_user for author in authors):
            return ""
        return authors[0].package if authors[0] is not None else ""

    @property
    def proof_summary(self) -> str:
        """Result of the attempt to reproduce the race, in one line; "" if there was none."""
        return self.proof.summary if self.proof is not None else ""

    def as_warning(self) -> "Finding":
        """Return this finding as a warning, or unchanged if it is not an error."""
        return replace(self, level=Severity.WARNING) if self.level is Severity.ERROR else self

    def with_example(self) -> "Finding":
        """Return this finding with its fix marked as an example, because it cannot be applied as is."""
        return self if self.fix is None else replace(self, fix=replace(self.fix, applicability=Applicability.EXAMPLE))

    def __repr__(self) -> str:
        return f"<Finding {self.rule.code} at {self._at}: {self.message}>"

    def __str__(self) -> str:
        text = f"{self._at}: {self.level} {self.rule.code} {self.title}"
        return f"{text}\n  help: {self.help}" if self.help else text

    @property
    def title(self) -> str:
        """The rule's name and the message; the message alone if it starts with the name."""
        if self.message.startswith(f"{self.rule.name.replace('-', ' ')}:"):
            return self.message
        return f"{self.rule.name}: {self.message}"

    @property
    def _at(self) -> str:
        frame = self.location.frame
        return f"{frame.path}:{frame.line}:{frame.column}" if frame.column else f"{frame.path}:{frame.line}"

    def counted(self, count: int) -> "Finding":
        """Return this finding with another count."""
        return replace(self, count=count)


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a check.

    Attributes:
        backend: description of the GPUs ("2 simulated GPUs").
        operators: number of GPU operators seen.
        streams: number of streams that ran at least one operator.
        devices: number of devices that ran at least one operator.
        seconds: wall time of the checked program, or of the lint.
        files: number of linted files.
        ranks: number of ranks whose reports were merged; 0 for a single process.
        used: the devices that ran at least one operator: their indices; in records of ranks, with their machine.
    """

    backend: str = ""
    operators: int = 0
    streams: int = 0
    devices: int = 0
    seconds: float = 0.0
    files: int = 0
    ranks: int = 0
    used: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a run, a replay or a lint: findings sorted by path, line, column and code.

    Attributes:
        incomplete: reasons why findings may have been missed; empty if the check was complete.
        notes: remarks on the run for the user, such as "torch.compile ran eagerly".
        hidden: number of findings omitted because of the limit on findings.
        known: number of findings omitted because they are in the baseline.
        worst_hidden: worst level among the findings omitted because of the limit; None if there are none.
        fixed: findings fixed by `lint --fix`.
        is_unsafe_wanted: whether unsafe fixes count as applicable.
    """

    findings: tuple[Finding, ...] = ()
    incomplete: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    summary: Summary = field(default_factory=Summary)
    hidden: int = 0
    known: int = 0
    worst_hidden: Severity | None = None
    fixed: tuple[Finding, ...] = ()
    is_unsafe_wanted: bool = False

    def is_fixable(self, finding: Finding) -> bool:
        """Return whether `lint --fix` would apply the fix of a finding."""
        wanted = {Applicability.SAFE, Applicability.UNSAFE} if self.is_unsafe_wanted else {Applicability.SAFE}
        return finding.source == "lint" and finding.fix is not None and finding.fix.applicability in wanted

    def noted(self, *notes: str) -> "Report":
        """Return this report with additional notes."""
        return replace(self, notes=(*self.notes, *notes))

    def doubted(self, *reasons: str) -> "Report":
        """Return this report with additional reasons why findings may have been missed."""
        return replace(self, incomplete=(*self.incomplete, *reasons))

    def completed(self) -> "Report":
        """Return this report, marked as incomplete if no operator was seen."""
        if self.summary.operators or not self.summary.backend or NO_STEPS in self.incomplete:
            return self
        return self.doubted(NOTHING_SEEN)

    def failing(self, fail_on: Severity) -> bool:
        """Return whether any finding is at `fail_on` or worse."""
        levels = [finding.level for finding in self.findings] + ([self.worst_hidden] if self.worst_hidden else [])
        return any(level.rank <= fail_on.rank for level in levels)


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural if needed."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def distinct(locations: Iterable[Location]) -> tuple[Location, ...]:
    """Return locations without those that look the same: one call, reached through different callers."""
    found: dict[tuple[Frame, str], Location] = {}
    for location in locations:
        found.setdefault((location.frame, location.message), location)
    return tuple(found.values())


def merge_equal(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings with the same rule and locations, adding counts and listing ranks; sort by place and code."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        locations = finding.locations
        key = (finding.rule.code, *((p.frame.path, p.frame.line, p.frame.column) for p in locations))
        seen = merged.get(key)
        merged[key] = finding if seen is None else _joined(seen, finding)
    return tuple(sorted(merged.values(), key=finding_key))


def joined(one: Report, other: Report) -> Report:
    """Combine the reports of two separately checked parts of a run, such as windows."""
    a, b = one.summary, other.summary
    used = tuple(sorted({*a.used, *b.used}))
    streams, devices = max(a.streams, b.streams), max(a.devices, b.devices, len(used))
    summary = Summary(b.backend or a.backend, a.operators + b.operators, streams, devices, used=used)
    return Report(
        findings=merge_equal((*one.findings, *other.findings)),
        incomplete=tuple(dict.fromkeys((*one.incomplete, *other.incomplete))),
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
        summary=summary,
    )


def finding_key(finding: Finding) -> tuple[str, int, int, str]:
    """Return the sort key of a finding: path, line, column, code."""
    frame = finding.location.frame
    return frame.path, frame.line, frame.column, finding.rule.code


def _joined(one: Finding, other: Finding) -> Finding:
    ranks = tuple(sorted({*one.ranks, *other.ranks}))
    rank = ranks[0] if ranks else one.rank
    pairs = tuple(sorted((dict(other.pairs) | dict(one.pairs)).items()))
    surer = min(one, other, key=lambda finding: len(finding.assumptions))  # the other assumptions are not needed
    return replace(surer, count=one.count + other.count, ranks=ranks, rank=rank, pairs=pairs)


def format_ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words: "rank 3", "ranks 0 to 5 and 7"; "" for none."""
    ordered = sorted(set(ranks))
    if not ordered:
        return ""
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    listed = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return f"rank{'s' if len(ordered) > 1 else ''} {listed}"
