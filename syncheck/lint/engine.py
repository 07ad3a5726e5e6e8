"""Linting of files in parallel, with a cache, and the report on the results."""

import contextlib
import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace

from syncheck.config.options import Options
from syncheck.filters import comments
from syncheck.filters.comments import Statements
from syncheck.findings import Finding, Report, Summary, finding_key, merge_equal
from syncheck.lint import files, locations, rule_registry
from syncheck.lint.cache import Cache, digest_of
from syncheck.lint.extensions import Extensions
from syncheck.lint.imports import Imports
from syncheck.lint.lifetimes import Collector
from syncheck.lint.prefilter import can_matter, is_of_other_library, mentions_torch
from syncheck.lint.result import Result
from syncheck.lint.source_file import SourceFile
from syncheck.paths import display_path
from syncheck.rules.model import Rule
from syncheck.sanitizer.device_names import for_device_type
from syncheck.system import files as disk
from syncheck.system.details import NO_DETAILS, Details
from syncheck.system.files import Stamp

NO_EXTENSIONS = Extensions((), (), "")
_collector = Collector()
_MAX_WORKERS = 61  # the most that concurrent.futures allows on Windows
_FEW = 16
"""Number of files to parse up to which worker processes are not worthwhile."""
NOTHING_TO_CHECK = Result(is_checked=False)
"""Result of a file in which no rule can find anything, and which is therefore not parsed."""
_KILLED = Result(problem="the process that checked it was killed, perhaps for lack of memory")
_MUCH = 2_000_000
"""Total size in bytes above which worker processes are worthwhile, whatever the files contain."""
_CHUNKS = 64
"""Number of chunks that each worker gets, unless that would make the chunks larger than `_MAX_AT_ONCE`."""
_MAX_AT_ONCE = 32
"""Maximum number of files per chunk."""
Task = tuple[str, bool]
"""A file, and whether `--strict` applies to it."""
Done = tuple[str, Stamp, str, Result]
"""A file, its stamp before it was read (None if it could not be), the digest of its content, and the result."""


@dataclass(slots=True)
class Outcome:
    """Results of a lint run.

    Attributes:
        results: path -> result, for the files with anything to report.
    """

    results: dict[str, Result] = field(default_factory=dict)
    n_files: int = 0
    seconds: float = 0.0


def lint_source(path: str, text: files.Text, *, is_strict: bool = False) -> Result:
    """Lint one file's text. With `is_strict`, also report findings that rest on extra assumptions."""
    try:
        source = SourceFile(path, text.source)
        result = _found(source, is_strict=is_strict)
    except SyntaxError as error:
        return Result(problem=f"line {error.lineno or 1}: {error.msg}")
    except RecursionError:
        return Result(problem="it is too deeply nested to be parsed")
    except MemoryError:
        return Result(problem="checking it takes too much memory", is_reproducible=False)
    except Exception as error:  # noqa: BLE001  one failure must not stop the other files from being linted
        problem = f"syncheck itself failed, please report it: {type(error).__name__}: {error}"
        return Result(problem=problem, is_reproducible=False)
    suppressions = comments.read(text.source)
    found = result.findings
    kept = comments.apply(found, suppressions, _statements(source, found)) if suppressions else found
    source.forget()
    if text.cells:
        kept = tuple(locations.in_cells(finding, path, text.cells, text.replaced) for finding in kept)
    unused = () if result.left_out else tuple(_unused(suppressions))  # one may be for code that was left out
    return replace(result, findings=kept, unused=unused)


def _unused(suppressions: list[comments.Suppression]) -> Iterator[tuple[int, str]]:
    """Yield suppression comments, and rule names in them, that could suppress lint findings but suppress none."""
    codes = {rule.code for rule in all_rules()} if suppressions else set()
    for comment in suppressions:
        if not comment.is_used and _is_for_lint(comment, codes):
            yield comment.line, str(comment)
        for name in comment.unused_names(codes):
            yield comment.line, comment.unused_message(name)


def _found(source: SourceFile, *, is_strict: bool) -> Result:
    """Return the result for a file before comments are applied."""
    from syncheck.lint.analysis import Analysis  # noqa: PLC0415  imports the sanitizer; most files do not need it

    analysis = Analysis(source, is_strict=is_strict)
    found = () if is_of_other_library(source.text.encode("utf-8", "replace")) else analysis.findings()
    problem, left_out = analysis.problem, ""
    kinds = rule_registry.find(source.text)
    if kinds:
        from syncheck.lint.syntactic_rules import check  # noqa: PLC0415  imports libcst; most files do not need it

        shaped, failed, left_out = check(source, kinds)
        problem = problem or failed
        found = merge_equal([*found, *shaped])
    found = tuple(for_device_type(source.device_type, finding) for finding in found)
    return Result(found, (), problem, analysis.asked, left_out=analysis.budget.left_out or left_out)


def _statements(source: SourceFile, found: Iterable[Finding]) -> Statements:
    """Return the line range of the statement that each finding is in."""
    return {finding: source.definitions.statement_lines(finding.location.frame.line) for finding in found}


def _is_for_lint(comment: comments.Suppression, codes: set[str]) -> bool:
    """Return whether a comment could suppress lint findings; `codes`: those of all rules of the linter."""
    return bool(comment.problem) or (comment.source != "run" and bool(codes & comment.codes))


def all_rules() -> tuple[Rule, ...]:
    """Return all rules that the linter can report."""
    from syncheck.lint.analysis import RULES  # noqa: PLC0415  imports the sanitizer; most files do not need it

    return (*RULES, *rule_registry.all_rules())


def lint_data(path: str, data: bytes, *, is_strict: bool = False) -> Result:
    """Lint one file's content; see `lint_source`."""
    is_relevant, asked = relevance(path, data)
    # A damaged notebook may lack the words that make it relevant.
    if not is_relevant and not (path.endswith(".ipynb") and mentions_torch(data)):
        return Result(is_checked=False, asked=asked)
    try:
        text = files.decode(data, path)
        return lint_source(path, text, is_strict=is_strict) if is_relevant else NOTHING_TO_CHECK
    except SyntaxError as error:
        return Result(problem=str(error.msg))


def relevance(path: str, data: bytes) -> tuple[bool, dict[str, Stamp]]:
    """Return whether a file may have findings, and the other files that this depends on, with their stamps."""
    is_relevant = _is_relevant(path, data)
    if is_relevant or not (path.endswith(".py") and mentions_torch(data)):
        return is_relevant, {}
    imports = Imports(path)
    return imports.import_work(data.decode("utf-8", "replace")), imports.asked


def _is_relevant(path: str, data: bytes) -> bool:
    """Return whether any rule may apply to a file. Stub files are not interpreted, since their code never runs."""
    return rule_registry.can_matter(data) if path.endswith(".pyi") else can_matter(data)


def _lint_file(task: Task) -> Done:
    path, is_strict = task
    if os.path.isdir(path):
        return path, None, "", Result(problem="the folder cannot be read")
    stamp = disk.stamp(path)
    try:
        data = disk.read(path)
    except OSError as error:
        return path, None, "", Result(problem=error.strerror or str(error))
    result = lint_data(path, data, is_strict=is_strict)
    imported = sum(stamp[1] for stamp in result.asked.values() if stamp is not None)  # parts of these are parsed, too
    _collector.file_ended(len(data) + imported if result.is_checked else 0)
    return path, stamp, digest_of(data), result


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
        cache: results of earlier runs.
        progress: called with (done, total) from time to time.
        extensions: the extensions loaded in this process, which its workers must load too.
        is_strict: returns whether `--strict` applies to a file.
        details: log of what was done with each file.
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
        _log_result(details, "took from the cache", path)
        if _is_worth_keeping(known):
            outcome.results[path] = known
    for done, (path, stamp, digest, result) in enumerate(_results(waiting, extensions), 1):
        cache.keep(path, stamp, digest, result, is_strict=path in strict)
        _log_result(details, _describe_result(result), path)
        if _is_worth_keeping(result):
            outcome.results[path] = result
        if not done % 16 or done == len(waiting):
            progress(done, len(waiting))
    cache.save()
    outcome.seconds = time.perf_counter() - began
    return outcome


def _is_worth_keeping(result: Result) -> bool:
    return bool(result.findings or result.unused or result.problem or result.left_out)


def _log_result(details: Details, what: str, path: str) -> None:
    if details.is_wanted:  # formatting the path takes longer than everything else that is done for most files
        details.write_line(f"{what} {display_path(path)}")


def _describe_result(result: Result) -> str:
    if not result.is_checked:
        return "nothing to check in"
    return "could not check" if result.problem else "checked"


def _results(tasks: list[Task], extensions: Extensions) -> Iterator[Done]:
    """Yield the result of each file."""
    workers = min(os.cpu_count() or 1, _MAX_WORKERS)
    if workers == 1 or not _is_worth_workers(tasks):
        yield from map(_lint_file, tasks)
        return
    tasks = sorted(tasks, key=lambda task: _size(task[0]), reverse=True)  # so that no worker ends with a large file
    if multiprocessing.get_start_method() == "fork":
        _import_all()  # once here instead of in each worker
    chunk = min(len(tasks) // (workers * _CHUNKS) + 1, _MAX_AT_ONCE)
    n_done = yield from _results_of_workers(tasks, extensions, workers, chunk)
    while n_done < len(tasks):  # a worker was killed; a single worker shows for which file
        n_done += yield from _results_of_workers(tasks[n_done:], extensions, 1, 1)
        if n_done < len(tasks):
            yield tasks[n_done][0], None, "", _KILLED
            n_done += 1


def _results_of_workers(
    tasks: list[Task], extensions: Extensions, workers: int, chunk: int
) -> Generator[Done, None, int]:
    """Yield the result of each file, in order, until a worker is killed; return the number of results."""
    n_done = 0
    with (
        contextlib.suppress(BrokenProcessPool),
        ProcessPoolExecutor(workers, initializer=_begin_worker, initargs=(extensions,)) as pool,
    ):
        for done in pool.map(_lint_file, tasks, chunksize=chunk):
            n_done += 1
            yield done
    return n_done


def _is_worth_workers(tasks: list[Task]) -> bool:
    """Return whether linting the files is worth starting worker processes."""
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
    """Import the modules needed to lint files that may have findings."""
    importlib.import_module("syncheck.lint.syntactic_rules")
    importlib.import_module("syncheck.lint.models").load()


def _begin_worker(extensions: Extensions) -> None:
    """Load the extensions that the parent has loaded, and exit when the parent does."""
    _end_with_parent()
    extensions.load()
    _collector.begin()


def _end_with_parent() -> None:
    """Make this worker exit if its parent is killed. Otherwise it would wait for work forever."""
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
    """Return the report, filtered by the options that apply to each file."""
    findings: list[Finding] = []
    incomplete: list[str] = []
    notes: list[str] = []
    for path, result in sorted(outcome.results.items()):
        shown = display_path(path)
        if result.problem:
            incomplete.append(f"{shown}: {result.problem}")
        options = options_of(path)
        codes = options.codes_for(path)
        findings += [locations.under(finding, path, shown) for finding in result.findings if finding.rule.code in codes]
        if result.left_out:
            notes.append(f"{shown}: {result.left_out}")
        notes += [f"{shown}:{line}: {comment}" for line, comment in result.unused]
    findings.sort(key=finding_key)
    unused = [comment for result in outcome.results.values() for _, comment in result.unused]
    if not all(map(comments.is_malformed, unused)):
        notes.append("--remove-unused-ignores removes unused comments")
    summary = Summary(files=outcome.n_files, seconds=outcome.seconds)
    return Report(tuple(findings), tuple(incomplete), tuple(notes), summary)
