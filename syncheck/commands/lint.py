"""The lint command: which files to lint, changes to them, and the report."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from syncheck.commands.details import NO_SOURCE
from syncheck.config.options import Options
from syncheck.config.settings import Layer, options_for, options_in, sources
from syncheck.config.unread import tables
from syncheck.filters.policy import baseline_of, checked_entry_filter, truncate, without_known
from syncheck.findings import NO_FILES, Finding, Report, counted
from syncheck.lint import engine, files
from syncheck.lint.cache import Cache
from syncheck.lint.extensions import Extensions
from syncheck.lint.fixes import changes
from syncheck.paths import display_path
from syncheck.system.details import NO_DETAILS, Details


def _no_progress(done: int, of: int) -> None:
    del done, of


@dataclass(frozen=True, slots=True)
class LintRequest:
    """What to lint and how.

    Attributes:
        paths: files and folders; "-" for standard input.
        given: settings from the command line; those of the files' own pyproject.toml apply as well.
        stdin: the text of standard input, and its name.
        change: "" to only report; "fix", "ignore" or "remove" to fix files, or to add or remove comments; "diff" to
            show what "fix" would do.
        unsafe: also apply unsafe fixes.
        cache: folder of the cache; None for no cache.
        progress: called with (done, total) from time to time.
        tries_fixes: try whether each fix resolves its finding, for the report.
    """

    paths: tuple[str, ...]
    given: Layer = ()
    stdin: tuple[bytes, str] = (b"", "stdin.py")
    change: str = ""
    unsafe: bool = False
    cache: Path | None = None
    progress: Callable[[int, int], None] = _no_progress
    tries_fixes: bool = True

    @property
    def is_stdin(self) -> bool:
        """Return whether to lint standard input."""
        return self.paths == ("-",)


def lint_files(request: LintRequest) -> list[str]:
    """Return the files that a request selects.

    Raises:
        ConfigError: a path does not exist, or the settings are invalid.
    """
    return _discover(request, NO_DETAILS)


def _discover(request: LintRequest, details: Details) -> list[str]:
    def on_skip(path: str, why: str) -> None:
        details.write_line(f"skipped {display_path(path)}: {why}")

    return list(files.discover(request.paths, lambda path: options_for(path, request.given), on_skip))


def lint(request: LintRequest) -> tuple[Report, changes.Changes]:
    """Lint files; return the report and the changes made.

    Raises:
        ConfigError: a path or a rule does not exist, or the settings are invalid.
    """

    @cache
    def options_under(folder: str) -> Options:
        return options_in(folder, request.given, command="lint")

    def options_of(path: str) -> Options:
        return options_under(os.path.dirname(path))

    options = options_in("", request.given, command="lint")
    details = Details(is_wanted=options.verbose)
    extensions = Extensions.of(options)
    key = extensions.load()
    options.check_rules()  # report invalid names before doing anything
    baseline = baseline_of(options)
    is_strict = partial(_is_strict, options_of)
    changed = changes.Changes()
    if request.is_stdin:
        paths = [request.stdin[1]]
        outcome, changed = _lint_stdin(request, options_of)
    else:
        with details.timed("search for files"):
            paths = _discover(request, details)
        _name_settings(paths, options, details)
        if request.change:
            changed = changes.change(paths, request.change, options_of, unsafe=request.unsafe)
        cached = Cache(request.cache, key)
        with details.timed(f"check of {counted(len(paths), 'file')}"):
            outcome = engine.lint(paths, cached, request.progress, extensions, is_strict, details)
    report = engine.report_of(outcome, options_of)
    report = report.noted(*_notes_on_unloaded(paths, options, options_of), *_notes_on_tables(paths, request.given))
    if baseline is not None:
        linted = {baseline.relative(path) for path in paths if _is_complete(outcome, path)}

        def is_seen(path: str) -> bool:
            file = path.partition(":cell ")[0]
            return file in linted or not os.path.exists(os.path.join(baseline.path.parent, file))

        looked_at = checked_entry_filter("lint", baseline, options_of, is_seen)
        report = without_known(report, baseline, options, looked_at, is_strict)
    report = truncate(report, options.max_findings)
    incomplete = (*report.incomplete, *changed.problems)
    report = replace(report, incomplete=incomplete, is_unsafe_wanted=request.unsafe)
    report = report if paths else _without_files(report, request.paths, options)
    if request.tries_fixes and not request.change and not request.is_stdin:
        changed.unresolved = changes.unfixable(_by_file(outcome), options_of, unsafe=request.unsafe)
    return _with_changes(report, request.change, changed), changed


def _without_files(report: Report, given: Sequence[str], options: Options) -> Report:
    """Return the report if there is nothing to lint.

    The settings may exclude all files that a pre-commit hook names, and then nothing is missing.
    """
    if options.force_exclude and all(map(os.path.isfile, given)):
        return report.noted(f"the settings exclude {counted(len(given), 'file')}")
    return replace(report, incomplete=(NO_FILES,))


def _lint_stdin(request: LintRequest, options_of: Callable[[str], Options]) -> tuple[engine.Outcome, changes.Changes]:
    """Lint standard input, after the requested change."""
    (data, name), changed = request.stdin, changes.Changes()
    if request.change:
        changed = changes.change([name], request.change, options_of, unsafe=request.unsafe, stdin=data)
    result = engine.lint_data(name, changed.content or data, is_strict=options_of(name).strict)
    return engine.Outcome({name: result}, 1), changed


def _is_strict(options_of: Callable[[str], Options], path: str) -> bool:
    return options_of(path).strict


def _name_settings(paths: list[str], options: Options, details: Details) -> None:
    """Print which settings apply to how many files."""
    if not details.is_wanted:
        return
    of_folder = Counter(os.path.dirname(path) for path in paths)
    n_files: Counter[str] = Counter()
    for folder, number in of_folder.items():
        n_files[", ".join(sources(folder, options, "lint")) or NO_SOURCE] += number
    for source, number in n_files.items():
        details.write_line(f"settings of {counted(number, 'file')}: {source}")


def _by_file(outcome: engine.Outcome) -> dict[str, tuple[Finding, ...]]:
    """Return the findings of each file."""
    return {path: result.findings for path, result in outcome.results.items()}


def _with_changes(report: Report, change: str, changed: changes.Changes) -> Report:
    """Return the report with the changes that were made."""
    if change in {"", "fix"}:
        unresolved = changed.unresolved
        findings = tuple(f.with_example() if changes.spot_of(f) in unresolved else f for f in report.findings)
        return replace(report, findings=findings, fixed=tuple(changed.fixed))
    if not changed.n_comments:
        return report
    comments, n_files = counted(changed.n_comments, "comment"), counted(changed.n_files, "file")
    did = f"added {comments} to" if change == "ignore" else f"removed {comments} from"
    return report.noted(f"{did} {n_files}")


def _notes_on_unloaded(paths: list[str], options: Options, options_of: Callable[[str], Options]) -> list[str]:
    """Return a note on each settings file of another folder whose rules or models are not loaded."""
    loaded = {*options.rules, *options.models}
    folders = {found.root for path in paths if not {*(found := options_of(path)).rules, *found.models} <= loaded}
    text = "names rules or models, but these are loaded only from the working directory's settings"
    return [f"{display_path(os.path.join(folder, 'pyproject.toml'))} {text}" for folder in sorted(folders)]


def _notes_on_tables(paths: list[str], layer: Layer) -> list[str]:
    """Return a note on each misspelled table of another folder; the command warns of those of the working directory."""
    folders = sorted({os.path.dirname(path) for path in paths})
    found = dict.fromkeys(notice for folder in folders for notice in tables(folder, layer))
    of_command = tables("", layer)
    return [f"{message}: {hint}" for message, hint in found if (message, hint) not in of_command]


def _is_complete(outcome: engine.Outcome, path: str) -> bool:
    """Return whether all of a file was linted."""
    result = outcome.results.get(path)
    return result is None or not (result.problem or result.left_out)


def statistics(report: Report) -> list[str]:
    """Return one line per rule that has findings: number, code, name."""
    counts = Counter(finding.rule for finding in report.findings)
    return [f"{number:>6}  {rule.code}  {rule.name}" for rule, number in counts.most_common()]


def stamps(request: LintRequest) -> dict[str, int]:
    """Return the modification time of each file of a request, in nanoseconds."""
    return {path: os.stat(path).st_mtime_ns for path in lint_files(request) if os.path.exists(path)}
