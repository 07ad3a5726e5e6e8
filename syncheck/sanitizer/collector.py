"""Collection of raw findings while the program runs, one for each cause; they are worded at the end."""

import ast
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from syncheck.findings import Applicability, Finding, Frame, distinct, merge_equal
from syncheck.hb.ids import NO_ALLOCATION, NO_VIEW, UNKNOWN_SITE, AllocationId, HostId, NamedKind, SiteId, ViewId
from syncheck.rules.model import Rule, Severity
from syncheck.sanitizer import fixes
from syncheck.sanitizer.causes import line_of, merge_by_cause, merge_by_location
from syncheck.sanitizer.device_names import for_device_type
from syncheck.sanitizer.fixes import PendingFix
from syncheck.sanitizer.merging import MAX_RELATED, merge_by_fix
from syncheck.sanitizer.messages import Names, Text, ThreadRef
from syncheck.sanitizer.monitor import Sites, SourceLine
from syncheck.sanitizer.overwritten_copies import with_other_buffer
from syncheck.semantics.collectives import as_called
from syncheck.source.expressions import object_of_call
from syncheck.source.text import parse_expression
from syncheck.witness.schedule import Pair


@dataclass(slots=True)
class PendingFinding:
    """A finding that has not been worded yet.

    Attributes:
        site: the primary call site.
        facts: the rule's facts.
        related: other call sites, each with a description of what happened there.
        fix: the fix; its text precedes the advice.
        advice: additional advice.
        allocation: the tensor concerned; 0 if none.
        name_sites: call sites that may reveal the name of a freed tensor: its allocation, its free.
        freed: the call site at which the tensor is freed; 0 if unknown.
        cause: findings of one rule with equal causes whose tensors are freed on one line are merged; () for none.
        superseded: evaluated at the end; True drops the finding, because a more specific one covers it.
        irrelevant: the same, because of the source code, which does not change until then.
        exempt: evaluated at the end; call sites that are correct: findings on their lines are dropped.
        thread: the thread of the program that completed a race with another thread.
        is_about_call: whether it asks to change a call; it is dropped if torch itself makes that call.
        exempt_paths: start of the paths of torch's files; it is dropped if the call is made in one of them.
        pair: the accesses of the race, the first of several; None for other findings.
        view: the part of the tensor concerned; NO_VIEW for the whole tensor.
        extent: start and end (exclusive) of that part in the allocation, in bytes; None without a view.
        successor: the tensor in the same role as the freed one while its use is repeated; 0 at other times.
        early_record: the record before the work of the event that the host has waited for; 0 for other findings.
        instead: advice to show if the fix cannot be applied; () to show the fix anyway.
        elsewhere: the fixes of repetitions that concern other call sites: the line was reached from another caller.
        has_more_places: whether there are further ones.
    """

    rule: Rule
    site: SiteId
    facts: dict[str, Text]
    related: list[tuple[SiteId, Text]] = field(default_factory=list)
    advice: Text = ()
    fix: PendingFix | None = None
    allocation: AllocationId = NO_ALLOCATION
    name_sites: tuple[SiteId, ...] = ()
    freed: SiteId = UNKNOWN_SITE
    cause: tuple[object, ...] = ()
    level: Severity | None = None
    superseded: Callable[[], bool] | None = None
    irrelevant: Callable[[], bool] | None = None
    exempt: Set[SiteId] | None = None
    thread: HostId | None = None
    is_about_call: bool = False
    exempt_paths: tuple[str, ...] = ()
    pair: Pair | None = None
    view: ViewId = NO_VIEW
    extent: tuple[int, int] | None = None
    successor: AllocationId = NO_ALLOCATION
    early_record: SiteId = UNKNOWN_SITE
    instead: Text = ()
    elsewhere: list[PendingFix] = field(default_factory=list)
    has_more_places: bool = False
    count: int = 1

    @property
    def is_certain(self) -> bool:
        """Whether the finding cannot be dropped later."""
        return self.superseded is None and self.exempt is None

    def mention(self, related: list[tuple[SiteId, Text]]) -> None:
        """Add the call sites of a repetition, up to a readable number."""
        known = {site for site, _ in self.related}
        room = max(0, MAX_RELATED - len(self.related))
        self.related += [entry for entry in related if entry[0] not in known][:room]

    def note_elsewhere(self, fix: PendingFix | None) -> bool:
        """Note the fix of a repetition if it concerns other call sites than those noted so far; return whether it was.

        Beyond a readable number, only that there are more is noted.
        """
        if self.fix is None or fix is None or self.has_more_places:
            return False
        if fix.places in {self.fix.places, *(known.places for known in self.elsewhere)}:
            return False
        if len(self.elsewhere) == _MAX_ELSEWHERE:
            self.has_more_places = True
            return False
        self.elsewhere.append(fix)
        return True


_STREAMS = frozenset({"torch/cuda/streams.py", "torch/xpu/streams.py"})
"""Torch's files whose stream and event methods are implemented by calling others."""
_MAX_ELSEWHERE = 3
MAX_FINDINGS = 5000
"""Number of results of a run that GitHub shows: "SARIF results exceed one or more limits", GitHub documentation."""


OnFinding: TypeAlias = Callable[[PendingFinding], None]
"""Called with each new finding during the call that completed it, and with findings that are seen again."""
Checkpoint: TypeAlias = dict[tuple[object, ...], int]
"""Number of occurrences of each finding at some point in time."""


class Collector:
    """The findings so far.

    Their number is limited, so that a program with 100,000 variants of a mistake gives a usable report.

    Attributes:
        names: the program's names for its objects.
        n_dropped: number of findings dropped because of the limit, since the last checkpoint if there is one.

    Args:
        selected: returns whether to report a rule.
        on_finding: called with each new finding.
    """

    def __init__(self, selected: Callable[[Rule], bool], on_finding: OnFinding = lambda _: None) -> None:
        self.names = Names()
        self._selected = selected
        self._on_finding = on_finding
        self._pending_findings: dict[tuple[object, ...], PendingFinding] = {}
        self._earlier: set[tuple[object, ...]] = set()  # not seen again since the last checkpoint
        self._sites: set[SiteId] = set()
        self._kinds: set[tuple[str, Severity | None]] = set()
        self._room = MAX_FINDINGS
        self.n_dropped = 0

    def add(self, pending: PendingFinding, *cause: object) -> PendingFinding:
        """Add a finding, or count another occurrence of one with the same rule, site and cause; return that finding.

        The first occurrence since the last checkpoint is the one that is described.
        Beyond the limit, only the first finding of each rule and level is added.
        """
        key = (pending.rule.code, pending.site, *cause)
        known = self._pending_findings.get(key)
        if known is not None and key not in self._earlier:
            known.count += 1
            known.mention(pending.related)
            if known.note_elsewhere(pending.fix):
                self._keep_names(pending)
            return known
        if known is not None:  # describe this occurrence, with its own tensors, instead of one before the checkpoint
            self._earlier.remove(key)
            pending.count += known.count
        elif self._selected(pending.rule) and not self._has_room(pending):
            self.n_dropped += 1
            return pending
        self._pending_findings[key] = pending
        self._sites.add(pending.site)
        self._keep_names(pending)
        self._on_finding(pending)
        return pending

    def _keep_names(self, pending: PendingFinding) -> None:
        """Keep the names that a finding mentions until it is worded."""
        edits = pending.fix.all_edits() if pending.fix is not None else ()
        self.names.keep([pending.advice, *pending.facts.values(), *(edit.code for edit in edits)])

    def note_repetition(self, pending: PendingFinding, allocation: AllocationId) -> None:
        """Note that the use of a freed tensor is repeated with another tensor in its place."""
        pending.successor = allocation
        self._on_finding(pending)

    @property
    def dropped_note(self) -> tuple[str, ...]:
        """Message on the findings since the last checkpoint that were dropped because of the limit."""
        text = f"there are more than {MAX_FINDINGS:,} findings: of {{:,}} more, only the first of each rule is shown"
        return (text.format(self.n_dropped),) if self.n_dropped else ()

    def _has_room(self, pending: PendingFinding) -> bool:
        kind = (pending.rule.code, pending.level)
        is_first = kind not in self._kinds
        self._kinds.add(kind)
        self._room -= 1
        return self._room >= 0 or is_first

    def has(self, site: SiteId) -> bool:
        """Return whether anything was reported at a site."""
        return site in self._sites

    def shows(self, pending: PendingFinding) -> bool:
        """Return whether the rule of a finding is selected, and not ignored by a block of the program.

        Blocks are considered only while `findings` runs, which sets the call sites.
        """
        sites = self.names.sites
        return self._selected(pending.rule) and not (sites is not None and sites.ignored(pending.site, pending.rule))

    def checkpoint(self) -> Checkpoint:
        """Return the number of occurrences of each finding so far, and reset the limit."""
        self._room, self.n_dropped = MAX_FINDINGS, 0
        self._kinds.clear()
        self._earlier = set(self._pending_findings)
        return {key: pending.count for key, pending in self._pending_findings.items()}

    def findings(self, sites: Sites, since: Checkpoint | None = None) -> tuple[Finding, ...]:
        """Word all findings, or those seen since a checkpoint; equal ones are merged, sorted by place and code."""
        self.names.sites = sites
        pending_findings = [
            (pending, pending.count - (since or {}).get(key, 0)) for key, pending in self._pending_findings.items()
        ]
        selected = [(d, count) for d, count in pending_findings if count and self.shows(d)]
        selected = [(d, count) for d, count in selected if not (d.superseded and d.superseded())]
        selected = [(d, count) for d, count in selected if not (d.irrelevant and d.irrelevant())]
        selected = [(d, count) for d, count in selected if not (d.exempt and is_at_a_line_of(d.site, d.exempt, sites))]
        selected = [(d, count) for d, count in selected if not _is_call_of_library(d, sites)]
        for pending, _ in selected:
            self._name(pending, sites)
        causes = merge_by_location(merge_by_cause(selected, sites, self.names), sites, self.names)
        return merge_by_fix(merge_equal(self._word(pending, sites).counted(count) for pending, count in causes))

    def _word(self, pending: PendingFinding, sites: Sites) -> Finding:
        if pending.early_record:
            pending = with_other_buffer(pending, sites)
        self.names.tell_apart([*pending.facts.values(), *(message for _, message in pending.related)])
        word = self.names.format
        location = sites.location(pending.site)
        facts = {name: word(value) for name, value in pending.facts.items()}
        finding = Finding.of(pending.rule, location, **facts)
        where = "" if pending.thread is None else f", in {word((ThreadRef(pending.thread),))}"
        related = distinct(
            replace(sites.location(site), message=word(message)) for site, message in pending.related if site
        )
        advice, fix = pending.advice, None
        repair = ""
        if pending.fix is not None:
            worded = fixes.word(pending.fix, self.names, sites, location.frame.path)
            repair, fix = worded.text, worded.fix
            if pending.instead and fix.applicability is Applicability.EXAMPLE:
                repair, fix, advice = "", None, pending.instead
        sources = [each.frame.source for each in (location, *related)]
        advised = as_called(repair + word(advice).replace("{line}", f"line {location.frame.line}"), sources)
        worded_finding = Finding(
            rule=finding.rule,
            location=location,
            message=as_called(finding.message, sources) + where,
            help=advised,
            related=related,
            count=pending.count,
            level=pending.level or pending.rule.severity,
            fix=fix,
            pair=pending.pair,
        )
        return for_device_type(self.names.device_type, worded_finding)

    def _name(self, pending: PendingFinding, sites: Sites) -> None:
        """Name the tensor of a finding by the names bound where it was allocated and freed."""
        key = (NamedKind.ALLOCATION, pending.allocation)
        held_by = None
        if pending.freed:
            line = sites.lines_of(pending.freed)[0]
            held_by = self.names.seen_at.get(key, {}).get((line.path, line.number))
            if held_by is not None:
                self.names.held_until_freed[pending.allocation] = held_by
            owner = _owner(pending, sites)
            if owner:
                self.names.owners[pending.allocation] = (owner, line.path, line.function)
        if name := self._seen_at_use(key, pending, sites) or _name_in_call(pending, sites):
            self.names.given.setdefault(key, name)
        for site in pending.name_sites:
            name = held_by if held_by and site == pending.freed else sites.bound(site)
            if _is_of_another(name, site, pending, sites):
                continue
            if name and "[...]" not in name:
                line = sites.lines_of(site)[0]
                self.names.given.setdefault(key, name)
                self.names.seen_at.setdefault(key, {}).setdefault((line.path, line.number), name)

    def _seen_at_use(self, key: tuple[NamedKind, int], pending: PendingFinding, sites: Sites) -> str:
        """Return a tensor's name observed where it is used, in the innermost function; "" if none was observed."""
        seen = self.names.seen_at.get(key)
        if not seen:
            return ""
        at_use = (seen.get((line.path, line.number), "") for line in sites.lines_of(pending.site))
        return next(filter(None, at_use), "")


def _name_in_call(pending: PendingFinding, sites: Sites) -> str:
    """Return the expression of the tensor in the call of `record_stream` that a finding is about; "" for others."""
    if not pending.is_about_call:
        return ""
    line = sites.lines_of(pending.site)[0]
    return object_of_call(line.statement, "record_stream", line.number, line.column)


def _is_of_another(name: str, site: SiteId, pending: PendingFinding, sites: Sites) -> bool:
    """Return whether the name bound where a tensor is allocated or freed is not the tensor's name."""
    if not pending.freed:
        return False
    freed = sites.lines_of(pending.freed)[0]
    is_inside_call = _is_call(sites.location(pending.freed).frame)
    if site != pending.freed:  # a tensor that its own statement frees is not what the statement binds
        made = sites.lines_of(site)[0]
        return is_inside_call and (made.path, made.number) == (freed.path, freed.number)
    return is_inside_call or binds_result(name, freed, sites.lines_of(pending.site)[0])


def _owner(pending: PendingFinding, sites: Sites) -> str:
    """Return the variable that held a tensor from allocation to free, within one function; "" if uncertain."""
    freed = sites.bound(pending.freed)
    if freed.endswith(".data"):
        return freed  # assigning to it frees nothing else
    for site in pending.name_sites:
        frame, scopes = sites.location(site).frame, sites.lines_of(site)[0].scopes
        is_whole = scopes is not None and scopes.is_whole_value(
            (frame.line, frame.column), (frame.end_line, frame.end_column)
        )
        is_here = sites.lines_of(site)[0].function == sites.lines_of(pending.freed)[0].function
        if site != pending.freed and is_whole and is_here and sites.bound(site) == freed:
            return freed
    return ""


def binds_result(name: str, freed: SourceLine, use: SourceLine) -> bool:
    """Return whether a name that is rebound where a tensor is freed belongs to the result of the use.

    Then it is not the tensor's name: in `loss = criterion(output, target)`, the old `loss` held the old `target`.
    """
    if (freed.path, freed.number) != (use.path, use.number) or use.scopes is None:
        return False
    return not use.scopes.is_mentioned(name, use.number, is_bound=False)


def _is_call(frame: Frame) -> bool:
    """Return whether a location is a call, rather than a binding or deletion of a variable."""
    text = frame.source[frame.column - 1 : frame.end_column - 1] if frame.column else ""
    try:
        return isinstance(parse_expression(text), ast.Call)
    except SyntaxError:
        return False


def is_at_a_line_of(site: SiteId, others: Set[SiteId], sites: Sites) -> bool:
    """Return whether a call site is on the line of one of the others: the same call, possibly from another caller."""
    return site in others or line_of(site, sites) in {line_of(other, sites) for other in others}


def _is_call_of_library(pending: PendingFinding, sites: Sites) -> bool:
    """Return whether a finding is about a call that the program cannot change, because torch makes it."""
    paths = ("torch/",) if pending.is_about_call else pending.exempt_paths
    # the caller of methods such as `wait_stream` that wrap other calls
    caller = next((frame for frame in sites.location(pending.site).stack if frame.path not in _STREAMS), None)
    return caller is not None and not caller.is_user and caller.path.startswith(paths)
