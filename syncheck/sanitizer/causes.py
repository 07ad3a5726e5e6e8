"""Merging of findings with one cause: tensors of one batch, streams of one loop."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from syncheck.hb.ids import SiteId
from syncheck.sanitizer import fixes
from syncheck.sanitizer.messages import Names
from syncheck.sanitizer.monitor import Sites

if TYPE_CHECKING:
    from syncheck.sanitizer.collector import PendingFinding

Counted: TypeAlias = "tuple[PendingFinding, int]"
"""A finding, and how often it was seen."""
Found: TypeAlias = "list[Counted]"


def merge_by_cause(found: Found, sites: Sites, names: Names) -> Found:
    """Merge findings with one cause about tensors freed or used at one line, keeping the first place and all edits."""
    lines = [_lines_of_cause(pending, sites) for pending, _ in found]
    first: dict[object, object] = {}  # line -> another line of the same group, or itself
    for line, *others in filter(None, lines):
        for other in others:
            first[_first_line(other, first)] = _first_line(line, first)
    groups: dict[object, Found] = {}
    for (pending, count), own in zip(found, lines, strict=True):
        key = _first_line(own[0], first) if own else id(pending)
        groups.setdefault(key, []).append((pending, count))
    return [_joined(group, sites, names) for group in groups.values()]


def _lines_of_cause(pending: "PendingFinding", sites: Sites) -> list[object]:
    """Return the lines where the tensor of a finding is freed and used, with the cause; none if it has no cause."""
    ends = (("freed", pending.freed), ("used", pending.site)) if pending.cause else ()
    return [(pending.rule.code, pending.cause, end, *line_of(site, sites)) for end, site in ends]


def _first_line(line: object, first: dict[object, object]) -> object:
    while (other := first.setdefault(line, line)) != line:
        first[line] = first[other]
        line = other
    return line


def _joined(group: Found, sites: Sites, names: Names) -> Counted:
    """Merge several findings into one; identical findings at the same location count as repetitions."""
    if len(group) == 1:
        return group[0]
    tensors: dict[tuple[int, int, str, str], Counted] = {}
    for pending, count in group:
        frame = sites.location(pending.site).frame
        # two unnamed tensors differ in the names that the fix uses for them on its line
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


def merge_by_location(found: Found, sites: Sites, names: Names) -> Found:
    """Merge findings of one rule with equal locations, like `merge_equal`; they come from loops over streams.

    The merged finding has one fix for all of them.
    """
    groups: dict[object, Found] = {}
    for pending, count in found:
        related = (site for site, _ in pending.related if site)
        locations = [sites.location(site).frame for site in (pending.site, *related)]
        key = (pending.rule.code, *((frame.path, frame.line, frame.column) for frame in locations))
        groups.setdefault(key, []).append((pending, count))
    return [_with_combined_fix(group, sites, names) for group in groups.values()]


def _with_combined_fix(group: Found, sites: Sites, names: Names) -> Counted:
    first = group[0][0]
    repairs = [fix for pending, _ in group if pending.fix is not None for fix in (pending.fix, *pending.elsewhere)]
    has_fixes = all(pending.fix is not None for pending, _ in group)
    is_cut = any(pending.has_more_places for pending, _ in group)
    of_all = fixes.for_all(repairs, names, sites) if has_fixes and len(repairs) > 1 and not is_cut else None
    if of_all is None and any(pending.elsewhere for pending, _ in group):  # lines for some would look like all
        of_all = fixes.without_applicable_choice(repairs, names, sites)
        of_all = repairs[0].as_example() if of_all is None and is_cut else of_all
    return replace(first, fix=of_all or first.fix), sum(count for _, count in group)


def line_of(site: SiteId, sites: Sites) -> tuple[str, int]:
    """Return the path and the line of a call site."""
    line = sites.lines_of(site)[0]
    return line.path, line.number
