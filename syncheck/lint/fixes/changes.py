"""Edits files: applies fixes, adds comments that suppress findings, or removes comments that suppress none."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from syncheck.config.options import Options
from syncheck.findings import Applicability, Finding
from syncheck.lint import files, locations
from syncheck.lint.fixes import documents
from syncheck.lint.fixes.unused_ignores import without_unused
from syncheck.paths import display_path
from syncheck.system import files as disk

if TYPE_CHECKING:
    from syncheck.lint.fixes.repair import Repaired

Spot = tuple[str, str, int, int]
"""Location of a finding: path, code, line, column."""

_LARGEST_TRIED = 400_000
"""Maximum size in bytes of a file whose fixes a report tries."""
_NOTHING: Mapping[str, tuple[Finding, ...]] = {}


@dataclass(slots=True)
class Changes:
    """Result of editing files.

    Attributes:
        diff: a unified diff, if the changes were only to be shown.
        fixed: the findings that are fixed, or would be.
        unresolved: the findings that remain although their fix was requested.
        unfixable: the same findings at their locations before any change.
        n_comments: number of comments added or removed.
        n_files: number of files changed, or that would be.
        problems: the files that could not be written, and why.
        content: the content of standard input after the change; empty for files.
    """

    diff: str = ""
    fixed: list[Finding] = field(default_factory=list)
    unresolved: set[Spot] = field(default_factory=set)
    unfixable: set[Spot] = field(default_factory=set)
    n_comments: int = 0
    n_files: int = 0
    problems: list[str] = field(default_factory=list)
    content: bytes = b""


@dataclass(slots=True)
class _Changed:
    """A file's text after a change, and what was changed."""

    text: str
    fixed: list[Finding] = field(default_factory=list)
    unresolved: list[Finding] = field(default_factory=list)
    unfixable: list[Finding] = field(default_factory=list)
    n_comments: int = 0


def change(
    paths: Iterable[str],
    kind: str,
    options_of: Callable[[str], Options],
    *,
    unsafe: bool,
    known: Mapping[str, tuple[Finding, ...]] = _NOTHING,
    stdin: bytes | None = None,
) -> Changes:
    """Edit files. Each file is written completely or not at all.

    Args:
        paths: the files.
        kind: "fix", "ignore", "remove", or "diff" to return a unified diff of "fix" without writing anything.
        options_of: returns the settings for a file.
        unsafe: see `repair`.
        known: the findings of files that were linted, as returned by the linter.
        stdin: standard input, if it is to be edited instead, under the only path.
    """
    done = Changes(content=stdin or b"")
    for path in paths:
        document = documents.read(path) if stdin is None else documents.parse(path, stdin)
        if document is None:
            continue
        options = options_of(path)
        is_same_text = isinstance(document, documents.PythonFile) and document.encoding == "utf-8"
        before = known.get(path) if is_same_text and not options.strict else None  # findings of --strict are not fixed
        changed = _changed(path, document.text, kind, options, unsafe=unsafe, known=before)
        name = display_path(path)
        if changed.text != document.text:
            if kind == "diff":
                old, new = (files.lines_of(document.shown(text)) for text in (document.text, changed.text))
                done.diff += "".join(difflib.unified_diff(old, new, name, name))
            elif not _keep(path, document.data(changed.text), done, is_stdin=stdin is not None):
                continue
            done.n_files += 1
        done.fixed += [locations.under(finding, path, name) for finding in changed.fixed]
        left = (document.placed(finding, path, changed.text) for finding in changed.unresolved)
        done.unresolved |= {spot_of(locations.under(finding, path, name)) for finding in left}
        unfixable_findings = (document.placed(finding, path, document.text) for finding in changed.unfixable)
        done.unfixable |= {spot_of(locations.under(finding, path, name)) for finding in unfixable_findings}
        done.n_comments += changed.n_comments
    return done


def unfixable(
    found: Mapping[str, tuple[Finding, ...]], options_of: Callable[[str], Options], *, unsafe: bool
) -> set[Spot]:
    """Return the locations of the findings whose fix would be given up because it does not help. Tries each file.

    Very large files are not tried: parsing them for each attempt takes minutes.

    Args:
        found: the findings by file, as returned by the linter.
        options_of: returns the settings for a file.
        unsafe: see `repair`.
    """
    spots: set[Spot] = set()
    for allowed in {Applicability.SAFE}, {Applicability.UNSAFE}:
        is_unsafe = unsafe or Applicability.UNSAFE in allowed
        tried = [
            path
            for path, findings in found.items()
            if any(_is(finding, allowed) for finding in findings) and _size(path) <= _LARGEST_TRIED
        ]
        unresolved = change(tried, "diff", options_of, unsafe=is_unsafe, known=found).unfixable
        spots |= unresolved & {
            spot_of(locations.under(finding, path, display_path(path)))
            for path in tried
            for finding in found[path]
            if _is(finding, allowed)
        }
    return spots


def _size(path: str) -> int:
    stamp = disk.stamp(path)
    return 0 if stamp is None else stamp[1]


def _is(finding: Finding, allowed: set[Applicability]) -> bool:
    return finding.fix is not None and finding.fix.applicability in allowed


def spot_of(finding: Finding) -> Spot:
    """Return the location of a finding."""
    frame = finding.location.frame
    return frame.path, finding.rule.code, frame.line, frame.column


def _changed(
    path: str, text: str, kind: str, options: Options, *, unsafe: bool, known: tuple[Finding, ...] | None
) -> _Changed:
    codes = options.codes_for(path)
    tools: Any = import_module("syncheck.lint.fixes.repair")  # imports libcst, which most runs do not need
    if kind == "ignore":
        commented, number = tools.with_ignores(path, text, codes, is_strict=options.strict)
        return _Changed(commented, n_comments=number)
    if kind == "remove":
        rest, number = without_unused(path, text, is_strict=options.strict)
        return _Changed(rest, n_comments=number)
    repaired: Repaired = tools.repair(path, text, unsafe=unsafe, codes=codes, known=known)
    fixed = [finding for finding in repaired.findings if finding.rule.code in codes]
    return _Changed(repaired.source, fixed, repaired.unresolved, repaired.unfixable)


def _keep(path: str, data: bytes, done: Changes, *, is_stdin: bool) -> bool:
    """Write a file, or keep the new content of standard input; return whether it could be written."""
    if is_stdin:
        done.content = data
        return True
    try:
        disk.write(path, data)
    except OSError as error:
        done.problems.append(f"{display_path(path)}: cannot be changed: {error.strerror or error}")
        return False
    return True
