"""Lints files: in parallel, with a cache, and says what could not be read."""

import contextlib
import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from syncheck.config.options import Options
from syncheck.filters import comments
from syncheck.filters.comments import Statements
from syncheck.findings import Finding, Report, Summary, in_order, merge_equal
from syncheck.lint import files, places, rule_registry
from syncheck.lint.cache import Cache, digest_of
from syncheck.lint.extensions import Extensions
from syncheck.lint.lifetimes import Collector
from syncheck.lint.prefilter import can_matter
from syncheck.lint.result import Result
from syncheck.lint.source_file import SourceFile
from syncheck.paths import shown as shown_path
from syncheck.rules.model import Rule
from syncheck.sanitizer.device_names import in_terms_of
from syncheck.system import files as disk
from syncheck.system.details import NO_DETAILS, Details

NO_EXTENSIONS = Extensions((), (), "")
_collector = Collector()
_MOST_WORKERS = 61  # concurrent.futures allows no more on Windows
_FEW = 16
"""Files to be parsed that are not worth other processes."""
NOTHING_TO_CHECK = Result(is_checked=False)
"""Of a file whose text has nothing of GPUs, which is not parsed."""
_MUCH = 2_000_000
"""Bytes of files that are worth other processes, whatever is in them."""
_CHUNKS = 64
"""Times that a worker gets files, as long as these are few."""
_MOST_AT_ONCE = 32
"""Files that a worker gets at a time."""
Task = tuple[str, bool]
"""A file, and whether `--strict` holds for it."""
Done = tuple[str, str, Result]
"""A file, the digest of what was read, and what came of it."""


@dataclass(slots=True)
class Outcome:
    """What came of all files.

    Attributes:
        results: path -> result, of the files that had anything to report.
    """

    results: dict[str, Result] = field(default_factory=dict)
    n_files: int = 0
    seconds: float = 0.0


def lint_source(path: str, text: files.Text, *, is_strict: bool = False) -> Result:
    """Lint one file's text; `is_strict`: report also what rests on more than is known."""
    try:
        source = SourceFile(path, text.source)
        found, problem, asked = _found(source, is_strict=is_strict)
    except SyntaxError as error:
        return Result(problem=f"line {error.lineno or 1}: {error.msg}")
    except (RecursionError, MemoryError):
        return Result(problem="it is too deeply nested to be parsed")
    except Exception as error:  # noqa: BLE001  the other files are linted all the same
        return Result(problem=f"syncheck itself failed, please report it: {type(error).__name__}: {error}")
    suppressions = comments.read(text.source)
    kept = comments.apply(found, suppressions, _statements(source, found)) if suppressions else found
    source.forget()
    if text.cells:
        kept = tuple(places.in_cells(finding, path, text.cells) for finding in kept)
    return Result(kept, tuple(_unused(suppressions)), problem, asked)


def _unused(suppressions: list[comments.Suppression]) -> Iterator[tuple[int, str]]:
    """Yield the comments, and the names in others, that could silence what the linter finds, and silence nothing."""
    codes = {rule.code for rule in all_rules()} if suppressions else set()
    for comment in suppressions:
        if not comment.is_used and _is_for_lint(comment, codes):
            yield comment.line, str(comment)
        for name in comment.idle_names(codes):
            yield comment.line, comment.idle(name)


def _found(source: SourceFile, *, is_strict: bool) -> tuple[tuple[Finding, ...], str, dict[str, disk.Stamp]]:
    """Return the findings of a file, why a rule failed, and the other files that were looked for."""
    from syncheck.lint.analysis import Analysis  # noqa: PLC0415  the sanitizer, which most files do not need

    analysis = Analysis(source, is_strict=is_strict)
    found, problem = analysis.findings(), ""
    kinds = rule_registry.find(source.text)
    if kinds:
        from syncheck.lint.shapes import check  # noqa: PLC0415  libcst, which most files do not need

        shaped, problem = check(source, kinds)
        found = merge_equal([*found, *(in_terms_of(source.device_type, finding) for finding in shaped)])
    return found, problem, analysis.asked


def _statements(source: SourceFile, found: Iterable[Finding]) -> Statements:
    """Return the lines of the statement of each finding."""
    return {finding: source.definitions.statement_lines(finding.place.frame.line) for finding in found}


def _is_for_lint(comment: comments.Suppression, codes: set[str]) -> bool:
    """Return whether a comment could silence something that the linter finds, given the codes of all that it finds."""
    return bool(comment.problem) or (comment.source != "run" and bool(codes & comment.codes))


def all_rules() -> tuple[Rule, ...]:
    """Return the rules that the linter can report."""
    from syncheck.lint.analysis import RULES  # noqa: PLC0415  the sanitizer, which most files do not need

    return (*RULES, *rule_registry.all_rules())


def lint_data(path: str, data: bytes, *, is_strict: bool = False) -> Result:
    """Lint one file's content; see `lint_source`."""
    if not _is_relevant(path, data):
        return NOTHING_TO_CHECK
    try:
        return lint_source(path, files.decode(data, path), is_strict=is_strict)
    except SyntaxError as error:
        return Result(problem=str(error.msg))


def _is_relevant(path: str, data: bytes) -> bool:
    """Return whether any rule can report anything in a file; no code of a stub runs, so none of it is followed."""
    return rule_registry.can_matter(data) if path.endswith(".pyi") else can_matter(data)


def _lint_file(task: Task) -> Done:
    path, is_strict = task
    if os.path.isdir(path):
        return path, "", Result(problem="the folder cannot be read")
    try:
        data = disk.read(path)
    except OSError as error:
        return path, "", Result(problem=error.strerror or str(error))
    result = lint_data(path, data, is_strict=is_strict)
    _collector.file_ended(len(data) if result.is_checked else 0)
    return path, digest_of(data), result


def lint(
    paths: Iterable[str],
    cache: Cache,
    progress: Callable[[int, int], None],
    extensions: Extensions = NO_EXTENSIONS,
    is_strict: Callable[[str], bool] = lambda _: False,
    details: Details = NO_DETAILS,
) -> Outcome:
    """Lint files.

    Args:
        paths: the files.
        cache: what is known of them.
        progress: called with (done, all) now and then.
        extensions: what this process has loaded, and those that lint for it are to load.
        is_strict: whether `--strict` holds for a file.
        details: says what became of each file.
    """
    began = time.perf_counter()
    outcome = Outcome()
    waiting: list[Task] = []
    strict: set[str] = set()
    for path in paths:
        outcome.n_files += 1
        if is_strict(path):
            strict.add(path)
        known = cache.find(path, is_strict=path in strict)
        if known is None:
            waiting.append((path, path in strict))
            continue
        _say(details, "took from the cache", path)
        if known.findings or known.unused or known.problem:
            outcome.results[path] = known
    for done, (path, digest, result) in enumerate(_results(waiting, extensions), 1):
        cache.keep(path, digest, result, is_strict=path in strict)
        _say(details, _what_was_done(result), path)
        if result.findings or result.unused or result.problem:
            outcome.results[path] = result
        if not done % 16 or done == len(waiting):
            progress(done, len(waiting))
    cache.save()
    outcome.seconds = time.perf_counter() - began
    return outcome


def _say(details: Details, what: str, path: str) -> None:
    if details.is_wanted:  # the path takes longer than all else that is done about most files
        details.say(f"{what} {shown_path(path)}")


def _what_was_done(result: Result) -> str:
    if not result.is_checked:
        return "nothing to check in"
    return "could not check" if result.problem else "checked"


def _results(tasks: list[Task], extensions: Extensions) -> Iterator[Done]:
    """Yield what came of each file."""
    workers = min(os.cpu_count() or 1, _MOST_WORKERS)
    if workers == 1 or not _is_much(tasks):
        yield from map(_lint_file, tasks)
        return
    tasks = sorted(tasks, key=lambda task: _size(task[0]), reverse=True)  # no process is left with a long one
    if multiprocessing.get_start_method() == "fork":
        _import_all()  # once, and not in each worker
    chunk = min(len(tasks) // (workers * _CHUNKS) + 1, _MOST_AT_ONCE)
    with ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(extensions,)) as pool:
        yield from pool.map(_lint_file, tasks, chunksize=chunk)


def _is_much(tasks: list[Task]) -> bool:
    """Return whether files are worth other processes."""
    n_heavy = n_bytes = 0
    for path, _ in tasks if len(tasks) > _FEW else ():
        with contextlib.suppress(OSError):
            data = disk.read(path)
            n_bytes += len(data)
            n_heavy += _is_relevant(path, data)
        if n_heavy > _FEW or n_bytes > _MUCH:
            return True
    return False


def _import_all() -> None:
    """Import what linting needs, where there is something to lint."""
    importlib.import_module("syncheck.lint.shapes")
    importlib.import_module("syncheck.lint.models").load()


def _begin_worker(extensions: Extensions) -> None:
    """Load what the parent has loaded, and end with it."""
    _end_with_parent()
    extensions.load()
    _collector.begin()


def _end_with_parent() -> None:
    """Let this worker end when its parent is killed: it would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def report_of(outcome: Outcome, options_of: Callable[[str], Options]) -> Report:
    """Return the report on what the options of each file select."""
    findings: list[Finding] = []
    incomplete: list[str] = []
    notes: list[str] = []
    for path, result in sorted(outcome.results.items()):
        shown = shown_path(path)
        if result.problem:
            incomplete.append(f"{shown}: {result.problem}")
        options = options_of(path)
        codes = options.codes_for(path)
        findings += [places.under(finding, path, shown) for finding in result.findings if finding.rule.code in codes]
        notes += [f"{shown}:{line}: {comment}" for line, comment in result.unused]
    findings.sort(key=in_order)
    if any(note.endswith("`") for note in notes):  # not damaged
        notes.append("--remove-unused-ignores removes unused comments")
    summary = Summary(files=outcome.n_files, seconds=outcome.seconds)
    return Report(tuple(findings), tuple(incomplete), tuple(notes), summary)
