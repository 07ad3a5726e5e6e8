"""Deletes one synchronization at a time from correct code: is the deletion reported, does it matter, does lint see it?

A deletion matters if a schedule changes a value that is printed, passed to the host, or left in memory. The schedules
are random ones and those that reorder the accesses of the reported races. A deletion is reported if it causes a finding
that does not exist without it. Run it as one of

    python bench/mutation.py [--schedules 4] [--verbose] [--devices N] [FILE...]
    python bench/mutation.py [--schedules 4] [--verbose] --checkouts FOLDER [DRIVER...]

The first form tests programs of one file, by default all correct fixtures with one process. The second one deletes from
libraries used by the programs in `bench/drivers`. FOLDER has their checkouts, each named `<owner>+<name>`. They are
copied, and nothing is downloaded. The dependencies of a library must be installed.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "rules")]

import markers  # noqa: E402  of the tests of fixtures

from bench import suites  # noqa: E402
from bench.deletions import Deletion, deletions, marked, without  # noqa: E402
from bench.forked import ForkedReruns, reruns_of  # noqa: E402
from syncheck.commands.strategies import ScheduleStrategy  # noqa: E402
from syncheck.errors import ScriptError  # noqa: E402
from syncheck.findings import Finding  # noqa: E402
from syncheck.lint.engine import lint_data  # noqa: E402
from syncheck.rules.model import Severity  # noqa: E402
from syncheck.witness.compare import Rerun, differences, nondeterministic_lines  # noqa: E402
from syncheck.witness.schedule import Schedule  # noqa: E402

MATTERS_REPORTED = "matters, reported"
MATTERS_MISSED = "matters, not reported"
HARMLESS_QUIET = "no value changes, not reported"
HARMLESS_WARNED = "no value changes, reported as a warning or advice"
HARMLESS_ERROR = "no value changes, reported as an error"
NOT_RUN = "the program never gets there"
FAILS = "the program fails without it"
NONDETERMINISTIC = "cannot be compared: two runs of it differ anyway"
VERDICTS = (
    MATTERS_REPORTED, MATTERS_MISSED, HARMLESS_QUIET, HARMLESS_WARNED, HARMLESS_ERROR, NOT_RUN, FAILS, NONDETERMINISTIC,
)  # fmt: skip
TO_READ = frozenset({MATTERS_MISSED, HARMLESS_ERROR})
"""Verdicts that require a manual review."""
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Target:
    """A program and the files in which statements are deleted.

    Attributes:
        root: folder relative to which file names are shown.
    """

    script: Path
    devices: int
    files: tuple[Path, ...]
    root: Path

    def reruns(self) -> ForkedReruns:
        """Return an object that runs the program."""
        return reruns_of(self.script, self.devices, limit=300.0)


@dataclass(frozen=True)
class Outcome:
    """The result of one deletion.

    Attributes:
        example: the rules that report it, or a schedule, or an error.
        linted: the rules with which the linter reports it, other than as advice.
    """

    location: str
    deletion: Deletion
    verdict: str
    example: str
    linted: str


def keys(findings: tuple[Finding, ...]) -> set[Key]:
    """Return the keys that identify findings."""
    return {(each.rule.code, each.location.frame.path, each.location.frame.line) for each in findings}


def codes(findings: tuple[Finding, ...]) -> str:
    """Return the codes of findings."""
    return ", ".join(sorted({finding.rule.code for finding in findings}))


def classify(reruns: ForkedReruns, n_schedules: int, known: set[Key]) -> tuple[str, str]:
    """Return the verdict on a program with a deletion, and an example.

    Args:
        reruns: runs the program.
        n_schedules: number of random schedules; 0 if they change the original program.
        known: findings that are not due to the deletion.
    """
    plain = reruns.run(None)
    findings = tuple(finding for finding in reruns.findings if keys((finding,)).isdisjoint(known))
    if plain.status or plain.timed_out:
        return FAILS, plain.error or "it took too long"
    reference, repeat = reruns.run(Schedule(reruns.program)), reruns.run(Schedule(reruns.program))
    nondeterministic = nondeterministic_lines(reference, repeat)
    found = codes(findings)
    if not reference.records or differences(reference, repeat, None, nondeterministic):
        return NONDETERMINISTIC, found
    changed = _changed(reruns, reference, nondeterministic, findings, n_schedules)
    if changed:
        return (MATTERS_REPORTED if findings else MATTERS_MISSED), found or changed
    if not n_schedules:
        return NONDETERMINISTIC, found
    if not findings:
        return HARMLESS_QUIET, ""
    is_error = any(finding.level is Severity.ERROR for finding in findings)
    return (HARMLESS_ERROR if is_error else HARMLESS_WARNED), found


def _changed(
    reruns: ForkedReruns,
    reference: Rerun,
    nondeterministic: frozenset[int],
    findings: tuple[Finding, ...],
    n_schedules: int,
) -> str:
    """Return a schedule that changes a value, or ""."""
    pairs = [finding.pair for finding in findings if finding.pair is not None]
    for pair in pairs:
        held_reference = reruns.run(Schedule(reruns.program), (pair,))
        for held in ScheduleStrategy(reruns.program).schedules(pair, None):
            if differences(held_reference, reruns.run(held, (pair,)), pair, nondeterministic):
                return str(held)
    for seed in range(n_schedules):
        schedule = Schedule(reruns.program, seed=seed)
        if differences(reference, reruns.run(schedule), None, nondeterministic):
            return str(schedule)
    return ""


def _is_schedule_dependent(reruns: ForkedReruns, n_schedules: int) -> bool:
    """Return whether random schedules change the original program, for example because of its threads' timing."""
    reference = reruns.run(Schedule(reruns.program))
    others = (reruns.run(Schedule(reruns.program, seed=seed)) for seed in range(n_schedules))
    return any(differences(reference, other, None, frozenset()) for other in others)


def executed(target: Target, reruns: ForkedReruns, found: dict[Path, list[Deletion]]) -> set[tuple[Path, int]]:
    """Return the deletions, by file and index, whose statements a program executes."""
    seen = set()
    folder = Path(tempfile.mkdtemp(prefix="syncheck-executed-"))  # a child would delete a TemporaryDirectory
    marks = {path: folder / str(number) for number, path in enumerate(target.files)}
    sources = {path: path.read_text() for path in target.files}
    for path, mark in marks.items():
        mark.mkdir()
        _write(path, marked(sources[path], found[path], mark))
    reruns.run(None)
    for path, mark in marks.items():
        _write(path, sources[path])
        seen |= {(path, int(each.name)) for each in mark.iterdir()}
    shutil.rmtree(folder)
    return seen


def check(target: Target, n_schedules: int) -> Iterator[Outcome]:
    """Yield the outcome of each deletion."""
    reruns = target.reruns()
    plain = reruns.run(None)
    known = keys(reruns.findings)
    where = target.script.name
    if plain.status or plain.timed_out:
        print(f"{where}: it does not run: {plain.error}", flush=True)
        return
    if any(finding.pair is not None for finding in reruns.findings):
        print(f"{where}: the original has races: {codes(reruns.findings)}", flush=True)
    if _is_schedule_dependent(reruns, n_schedules):
        print(f"{where}: random schedules change the original", flush=True)
        n_schedules = 0
    found = {path: deletions(path.read_text()) for path in target.files}
    ran = executed(target, reruns, found)
    for path, each in found.items():
        source = path.read_text()
        linted = keys(_lint_verdict(path, source))
        for index, deletion in enumerate(each):
            mutant = without(source, deletion)
            _write(path, mutant)
            verdict, example = NOT_RUN, ""
            if (path, index) in ran:
                verdict, example = _classified(target, n_schedules, known)
            caused = tuple(finding for finding in _lint_verdict(path, mutant) if not keys((finding,)) <= linted)
            yield Outcome(f"{path.relative_to(target.root)}:{deletion.line}", deletion, verdict, example, codes(caused))
        _write(path, source)


def _classified(target: Target, n_schedules: int, known: set[Key]) -> tuple[str, str]:
    try:
        return classify(target.reruns(), n_schedules, known)
    except ScriptError as error:
        return FAILS, str(error)


def _lint_verdict(path: Path, source: str) -> tuple[Finding, ...]:
    findings = lint_data(str(path), source.encode()).findings
    return tuple(finding for finding in findings if finding.level is not Severity.ADVICE)


def programs(files: list[Path], folder: Path, devices: int) -> Iterator[Target]:
    """Yield programs of one file, each copied into a folder; 0 `devices` means as many as a program's header says."""
    for path in files:
        n_devices, ranks = (devices, 1) if devices else _sizes(path)
        if ranks > 1 or not deletions(path.read_text()):
            continue
        inside = path.resolve().is_relative_to(ROOT)
        copy = folder / (path.resolve().relative_to(ROOT) if inside else path.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        yield Target(copy, n_devices, (copy,), folder)


def _sizes(fixture: Path) -> tuple[int, int]:
    expected = markers.read(fixture)
    return expected.devices, expected.ranks


def libraries(drivers: list[Path], checkouts: Path, folder: Path) -> Iterator[Target]:
    """Yield programs that use a library, each with its own copy of it."""
    for driver in drivers:
        suite = suites.read(driver)
        tree = folder / driver.stem
        suite.copy(checkouts, tree)
        sys.path.insert(0, str(tree))
        sys.dont_write_bytecode = False  # compile a large library only once
        yield Target(driver, suite.devices, tuple(tree / name for name in suite.files), tree)
        sys.path.remove(str(tree))


def _write(path: Path, source: str) -> None:
    """Write a module and delete its bytecode, which Python would reuse for a source of the same size and second."""
    path.write_text(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=4)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--checkouts", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="syncheck-mutation-"))  # a child would delete a TemporaryDirectory
    outcomes: list[Outcome] = []
    try:
        if given.checkouts:
            targets = libraries(given.files or sorted(suites.DRIVERS.glob("*.py")), given.checkouts, folder)
        else:
            targets = programs(given.files or sorted((ROOT / "fixtures").glob("*/*good*.py")), folder, given.devices)
        for target in targets:
            for outcome in check(target, given.schedules):
                outcomes.append(outcome)
                if given.verbose or outcome.verdict in TO_READ:
                    linted = f" [lint: {outcome.linted}]" if outcome.linted else ""
                    what = f"{outcome.location}: {outcome.deletion.text}"
                    print(f"{what}: {outcome.verdict} {outcome.example}{linted}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(outcomes)


def show(outcomes: list[Outcome]) -> None:
    """Print the counts by deleted call, and how many deletions the linter reports as an error or a warning."""
    table: dict[str, Counter[str]] = {verdict: Counter() for verdict in VERDICTS}
    for outcome in outcomes:
        table[outcome.verdict][outcome.deletion.call] += 1
        table[outcome.verdict]["lint"] += bool(outcome.linted)
    calls = sorted({outcome.deletion.call for outcome in outcomes})
    print("| deletion | " + " | ".join(calls) + " | all | reported by the linter |")
    print("| --- |" + " --- |" * (len(calls) + 2))
    for verdict, counts in table.items():
        of_calls = [counts[call] for call in calls]
        print(f"| {verdict} | {' | '.join(map(str, of_calls))} | {sum(of_calls)} | {counts['lint']} |")


if __name__ == "__main__":
    main()
