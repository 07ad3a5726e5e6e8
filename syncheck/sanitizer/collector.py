"""Collects raw findings while the program runs, one for each cause, and words them at the end."""

import ast
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from syncheck.findings import Applicability, Finding, Frame, Place, merge_equal
from syncheck.hb.ids import NO_ALLOCATION, NO_VIEW, UNKNOWN_SITE, AllocationId, HostId, NamedKind, SiteId, ViewId
from syncheck.rules.model import Rule, Severity
from syncheck.sanitizer import fixes
from syncheck.sanitizer.device_names import in_terms_of
from syncheck.sanitizer.fixes import PendingFix
from syncheck.sanitizer.messages import Names, Text, ThreadRef
from syncheck.sanitizer.monitor import Sites, SourceLine
from syncheck.witness.schedule import Pair


@dataclass(slots=True)
class PendingFinding:
    """A finding whose words are not chosen yet.

    Attributes:
        site: the primary call site.
        facts: the rule's facts.
        related: other call sites, each with what happened there.
        fix: the repair; its words come before the advice.
        advice: what else to do.
        allocation: the tensor it is about, 0 if none.
        name_sites: call sites that may show the tensor's name where it is gone: its allocation, its free.
        freed: the call site where the tensor goes; 0 if that is not known.
        cause: findings of one rule with an equal cause whose tensors go at one line are one finding; () for none.
        superseded: asked at the end: True drops it, as a more specific finding stands for it.
        exempt: asked at the end: call sites that are right; a finding at a line of theirs is dropped.
        thread: the thread of the program that completed a race with another thread.
        is_about_call: it wants a call changed: where torch itself makes that call, the user cannot.
        pair: the accesses of the race that it is about, the first of several; None for anything else.
        view: the bytes of the tensor that it is about; NO_VIEW where it is about all of them.
        extent: the first of these bytes in the allocation, and the one after the last; None without a view.
        again: a tensor that has the part of one that is gone, while the use of that is repeated; 0 at other times.
        instead: what to do where the repair cannot be made; () if that is shown all the same.
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
    exempt: Set[SiteId] | None = None
    thread: HostId | None = None
    is_about_call: bool = False
    pair: Pair | None = None
    view: ViewId = NO_VIEW
    extent: tuple[int, int] | None = None
    again: AllocationId = NO_ALLOCATION
    instead: Text = ()
    count: int = 1

    @property
    def is_certain(self) -> bool:
        """Whether nothing that comes later drops it."""
        return self.superseded is None and self.exempt is None

    def mention(self, related: list[tuple[SiteId, Text]]) -> None:
        """Add call sites that a repetition brought, up to a number that people still read."""
        known = {site for site, _ in self.related}
        room = max(0, _MOST_RELATED - len(self.related))
        self.related += [entry for entry in related if entry[0] not in known][:room]


_STREAMS = frozenset({"torch/cuda/streams.py", "torch/xpu/streams.py"})
"""Torch's files with the methods of streams and events that are made of others."""
_MOST_RELATED = 5
MOST_FINDINGS = 5000
"""GitHub shows as many results of a run: "SARIF results exceed one or more limits", GitHub documentation."""


OnFinding: TypeAlias = Callable[[PendingFinding], None]
"""Called with each new finding, while the call that completed it runs, and with one that is seen again."""
Checkpoint: TypeAlias = dict[tuple[object, ...], int]
"""How often each finding had been seen at some time."""


class Collector:
    """Findings so far.

    A program that does one thing wrong in 100,000 ways gets as many of them as people and their tools can take in.

    Attributes:
        names: what the program calls its things.
        n_dropped: how often a finding was left out as too many had come before, since the last checkpoint if any.

    Args:
        selected: which rules to report.
        on_finding: called with each new finding.
    """

    def __init__(self, selected: Callable[[Rule], bool], on_finding: OnFinding = lambda _: None) -> None:
        self.names = Names()
        self._selected = selected
        self._on_finding = on_finding
        self._pending_findings: dict[tuple[object, ...], PendingFinding] = {}
        self._sites: set[SiteId] = set()
        self._kinds: set[tuple[str, Severity | None]] = set()
        self._room = MOST_FINDINGS
        self.n_dropped = 0

    def add(self, pending: PendingFinding, *cause: object) -> PendingFinding:
        """Add a finding, or count one more of the same rule, sites and cause; return the one that is counted.

        Once there are too many, only the first of each rule and level is added.
        """
        key = (pending.rule.code, pending.site, *cause)
        known = self._pending_findings.get(key)
        if known is not None:
            known.count += 1
            known.mention(pending.related)
            return known
        if self._selected(pending.rule) and not self._has_room(pending):
            self.n_dropped += 1
            return pending
        self._pending_findings[key] = pending
        self._sites.add(pending.site)
        edits = pending.fix.all_edits() if pending.fix is not None else ()
        self.names.keep([pending.advice, *pending.facts.values(), *(edit.code for edit in edits)])
        self._on_finding(pending)
        return pending

    def seen_again(self, pending: PendingFinding, allocation: AllocationId) -> None:
        """The use of a tensor that was gone when it was found is repeated, with another tensor in its place."""
        pending.again = allocation
        self._on_finding(pending)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is not shown, of the findings since the last checkpoint, as too many had come before."""
        text = f"there are more than {MOST_FINDINGS:,} findings: of {{:,}} more, only the first of each rule is shown"
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

    def checkpoint(self) -> Checkpoint:
        """Return how often each finding was seen so far; there is room for as many again."""
        self._room, self.n_dropped = MOST_FINDINGS, 0
        self._kinds.clear()
        return {key: pending.count for key, pending in self._pending_findings.items()}

    def findings(self, sites: Sites, since: Checkpoint | None = None) -> tuple[Finding, ...]:
        """Word all findings, or those seen since a mark; equal ones merged, in the order of place and code."""
        self.names.sites = sites
        pending_findings = [
            (pending, pending.count - (since or {}).get(key, 0)) for key, pending in self._pending_findings.items()
        ]
        kept = [(d, count) for d, count in pending_findings if count and self._selected(d.rule)]
        kept = [(d, count) for d, count in kept if not (d.superseded and d.superseded())]
        kept = [(d, count) for d, count in kept if not (d.exempt and is_at_a_line_of(d.site, d.exempt, sites))]
        kept = [(d, count) for d, count in kept if not sites.ignored(d.site, d.rule)]
        kept = [(d, count) for d, count in kept if not (d.is_about_call and _is_torchs(sites.place(d.site)))]
        for pending, _ in kept:
            self._name(pending, sites)
        causes = _one_for_each_place(_one_for_each_cause(kept, sites, self.names), sites, self.names)
        return _one_for_each_repair(merge_equal(self._word(pending, sites).counted(count) for pending, count in causes))

    def _word(self, pending: PendingFinding, sites: Sites) -> Finding:
        word = self.names.format
        place = sites.place(pending.site)
        facts = {name: word(value) for name, value in pending.facts.items()}
        finding = Finding.of(pending.rule, place, **facts)
        where = "" if pending.thread is None else f", in {word((ThreadRef(pending.thread),))}"
        related = tuple(_with_message(sites.place(site), word(message)) for site, message in pending.related if site)
        advice, fix = pending.advice, None
        repair = ""
        if pending.fix is not None:
            repair, fix, _ = fixes.word(pending.fix, self.names, sites, place.frame.path)
            if pending.instead and fix.applicability is Applicability.EXAMPLE:
                repair, fix, advice = "", None, pending.instead
        advised = repair + word(advice).replace("{line}", f"line {place.frame.line}")
        worded_finding = Finding(
            rule=finding.rule,
            place=place,
            message=finding.message + where,
            help=advised,
            related=related,
            count=pending.count,
            level=pending.level or pending.rule.severity,
            fix=fix,
            pair=pending.pair,
        )
        return in_terms_of(self.names.device_type, worded_finding)

    def _name(self, pending: PendingFinding, sites: Sites) -> None:
        """Name the tensor of a finding by what is bound where it was made and where it went."""
        key = (NamedKind.ALLOCATION, pending.allocation)
        if pending.freed:
            line = sites.lines_of(pending.freed)[0]
            held_by = self.names.seen_at.get(key, {}).get((line.path, line.number))
            if held_by is not None:
                self.names.held_until_freed[pending.allocation] = held_by
            owner = _owner(pending, sites)
            if owner:
                self.names.owners[pending.allocation] = (owner, line.path, line.function)
        seen_at_use = self._seen_at_use(key, pending, sites)
        if seen_at_use:
            self.names.given.setdefault(key, seen_at_use)
        for site in pending.name_sites:
            name = sites.bound(site)
            if site == pending.freed and _is_of_another(name, pending, sites):
                continue
            if name and "[...]" not in name:
                line = sites.lines_of(site)[0]
                self.names.given.setdefault(key, name)
                self.names.seen_at.setdefault(key, {}).setdefault((line.path, line.number), name)

    def _seen_at_use(self, key: tuple[NamedKind, int], pending: PendingFinding, sites: Sites) -> str:
        """Return what a tensor was seen to be called where it is used, in the innermost function; "" if not seen."""
        seen = self.names.seen_at.get(key)
        if not seen:
            return ""
        at_use = (seen.get((line.path, line.number), "") for line in sites.lines_of(pending.site))
        return next(filter(None, at_use), "")


def _is_of_another(name: str, pending: PendingFinding, sites: Sites) -> bool:
    """Return whether what is bound where a tensor goes is no name of the tensor."""
    if _is_call(sites.place(pending.freed).frame):
        return True  # it went inside of a call: the name is that of the call's result
    return binds_result(name, sites.lines_of(pending.freed)[0], sites.lines_of(pending.site)[0])


def _owner(pending: PendingFinding, sites: Sites) -> str:
    """Return the variable that a tensor was made for and that lost it, in one function; "" if that is not certain."""
    freed = sites.bound(pending.freed)
    if freed.endswith(".data"):
        return freed  # to assign that lets nothing else go
    for site in pending.name_sites:
        frame, scopes = sites.place(site).frame, sites.lines_of(site)[0].scopes
        is_whole = scopes is not None and scopes.is_whole_value(
            (frame.line, frame.column), (frame.end_line, frame.end_column)
        )
        is_here = sites.lines_of(site)[0].function == sites.lines_of(pending.freed)[0].function
        if site != pending.freed and is_whole and is_here and sites.bound(site) == freed:
            return freed
    return ""


def binds_result(name: str, freed: SourceLine, use: SourceLine) -> bool:
    """Return whether a name that is bound anew where a tensor goes is that of the result of the use.

    Then it is not the tensor's: of `loss = criterion(output, target)` the old `loss` held the old `target`.
    """
    if (freed.path, freed.number) != (use.path, use.number) or use.scopes is None:
        return False
    return not use.scopes.is_spoken(name, use.number, is_bound=False)


def _one_for_each_cause(
    found: list[tuple[PendingFinding, int]], sites: Sites, names: Names
) -> list[tuple[PendingFinding, int]]:
    """Return findings with those of one cause joined: the first place is kept, and all edits."""
    groups: dict[object, list[tuple[PendingFinding, int]]] = {}
    for pending, count in found:
        freed = sites.place(pending.freed).frame
        key = (pending.rule.code, pending.cause, freed.path, freed.line) if pending.cause else id(pending)
        groups.setdefault(key, []).append((pending, count))
    return [_joined(group, sites, names) for group in groups.values()]


def _joined(group: list[tuple[PendingFinding, int]], sites: Sites, names: Names) -> tuple[PendingFinding, int]:
    """Return one finding for several: one that says the same at the same place is the same, seen again."""
    if len(group) == 1:
        return group[0]
    tensors: dict[tuple[int, int, str, str], tuple[PendingFinding, int]] = {}
    for pending, count in group:
        frame = sites.place(pending.site).frame
        # two tensors without a name differ in what the fix calls them at its line
        repair = fixes.word(pending.fix, names, sites, frame.path).text if pending.fix is not None else ""
        key = (frame.line, frame.column, names.format(pending.facts["tensor"]), repair)
        known, before = tensors.get(key, (pending, 0))
        tensors[key] = known, before + count
    (first, count), *others = (tensors[key] for key in sorted(tensors))
    fixes_of_all = [pending.fix for pending in (first, *(pending for pending, _ in others)) if pending.fix is not None]
    edits = [edit for fix in fixes_of_all for edit in fix.edits]
    fix = fixes.for_all(fixes_of_all, names, sites) if fixes_of_all else None
    if fix is None and first.fix is not None:
        fix = first.fix._replace(edits=tuple(dict.fromkeys(edits)))
    joined = replace(first, fix=fix, related=list(first.related))
    for pending, _ in others:
        joined.mention([(pending.site, (*pending.facts["tensor"], " may be reused, too"))])
    return joined, count


def _one_for_each_place(
    found: list[tuple[PendingFinding, int]], sites: Sites, names: Names
) -> list[tuple[PendingFinding, int]]:
    """Return findings with those of one rule and equal places joined, as `merge_equal` does it: a loop over streams.

    They have one repair for all of them.
    """
    groups: dict[object, list[tuple[PendingFinding, int]]] = {}
    for pending, count in found:
        places = [sites.place(site).frame for site in (pending.site, *(site for site, _ in pending.related if site))]
        key = (pending.rule.code, *((frame.path, frame.line, frame.column) for frame in places))
        groups.setdefault(key, []).append((pending, count))
    return [_with_repair_of_all(group, sites, names) for group in groups.values()]


def _with_repair_of_all(
    group: list[tuple[PendingFinding, int]], sites: Sites, names: Names
) -> tuple[PendingFinding, int]:
    first = group[0][0]
    repairs = [pending.fix for pending, _ in group if pending.fix is not None]
    of_all = fixes.for_all(repairs, names, sites) if 1 < len(repairs) == len(group) else None
    return replace(first, fix=of_all or first.fix), sum(count for _, count in group)


def _one_for_each_repair(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings with those joined that one line cures, as a hook that races with the work of each layer does."""
    merged: dict[object, Finding] = {}
    for finding in findings:
        frame, fix = finding.place.frame, finding.fix
        is_sure = fix is not None and fix.applicability is not Applicability.EXAMPLE
        key = (finding.rule.code, finding.level, frame.path, frame.line, frame.column, fix) if is_sure else id(finding)
        known = merged.get(key)
        merged[key] = finding if known is None else _with_places_of(known, finding)
    return tuple(merged.values())


def _with_places_of(one: Finding, other: Finding) -> Finding:
    known = {(place.frame, place.message) for place in one.related}
    room = max(0, _MOST_RELATED - len(one.related))
    more = [place for place in other.related if (place.frame, place.message) not in known][:room]
    return replace(one, count=one.count + other.count, related=(*one.related, *more))


def _is_call(frame: Frame) -> bool:
    """Return whether a place is that of a call, and not of a variable that is bound or deleted."""
    text = frame.source[frame.column - 1 : frame.end_column - 1] if frame.column else ""
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Call)
    except SyntaxError:
        return False


def is_at_a_line_of(site: SiteId, others: Set[SiteId], sites: Sites) -> bool:
    """Return whether a call site is at the line of one of some others: the same call, for whatever caller."""
    return site in others or _line(site, sites) in {_line(other, sites) for other in others}


def _line(site: SiteId, sites: Sites) -> tuple[str, int]:
    line = sites.lines_of(site)[0]
    return line.path, line.number


def _is_torchs(place: Place) -> bool:
    """Return whether torch's own code made a call, for whomever; `wait_stream` is made of other calls."""
    caller = next((frame for frame in place.stack if frame.path not in _STREAMS), None)
    return caller is not None and caller.package == "torch"


def _with_message(place: Place, message: str) -> Place:
    return Place(place.frame, message, place.excerpt, place.stack)
