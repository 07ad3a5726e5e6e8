"""Deletes one synchronization at a time from each correct program: is that reported, and does it matter?

A deletion matters if a schedule changes a value: something printed, given to the host, or left in memory. The schedules
are those of the reported races, with their accesses in the other order, and random ones. Run it as
`python bench/mutation.py [--schedules 4] [--verbose] [FILE...]`; by default on all fixtures of one process.
"""

import argparse
import ast
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "rules")]

import markers  # noqa: E402  of the tests of fixtures

from bench.forked import ForkedReruns, reruns_of  # noqa: E402
from syncheck.commands.means import Schedules  # noqa: E402
from syncheck.errors import ScriptError  # noqa: E402
from syncheck.findings import Finding  # noqa: E402
from syncheck.rules.model import Severity  # noqa: E402
from syncheck.witness.compare import Rerun, differences, unsteady_lines  # noqa: E402
from syncheck.witness.schedule import Schedule  # noqa: E402

CALLS = frozenset("wait_stream wait_event wait synchronize record_stream record".split())
MATTERS_REPORTED = "matters, reported"
MATTERS_MISSED = "matters, not reported"
HARMLESS_QUIET = "no value changes, not reported"
HARMLESS_WARNED = "no value changes, reported as a warning or advice"
HARMLESS_ERROR = "no value changes, reported as an error"
FAILS = "the program fails without it"
UNSTEADY = "cannot be compared: it is not deterministic"


@dataclass(frozen=True)
class Deletion:
    """A statement that is deleted."""

    line: int
    end: int
    column: int
    text: str
    call: str


def deletions(source: str) -> Iterator[Deletion]:
    """Yield the statements that are nothing but a call that orders something."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr in CALLS:
            text = ast.get_source_segment(source, node) or ""
            yield Deletion(node.lineno, node.end_lineno or node.lineno, node.col_offset, text, called.attr)


def without(source: str, deletion: Deletion) -> str:
    """Return a source in which `pass` stands for a statement, and all lines keep their numbers."""
    lines = source.split("\n")
    first = lines[deletion.line - 1][: deletion.column] + "pass"
    rest = [""] * (deletion.end - deletion.line)
    return "\n".join([*lines[: deletion.line - 1], first, *rest, *lines[deletion.end :]])


def judge(reruns: ForkedReruns, n_schedules: int) -> tuple[str, str]:
    """Return what becomes of a program in which something was deleted, and an example."""
    plain = reruns.run(None)
    findings = reruns.findings
    if plain.status or plain.timed_out:
        return FAILS, plain.error
    usual, same = reruns.run(Schedule(reruns.program)), reruns.run(Schedule(reruns.program))
    unsteady = unsteady_lines(usual, same)
    if not usual.records or differences(usual, same, None, unsteady):
        return UNSTEADY, ""
    changed = _changed(reruns, usual, unsteady, findings, n_schedules)
    codes = ", ".join(sorted({finding.rule.code for finding in findings}))
    if changed:
        return (MATTERS_REPORTED if findings else MATTERS_MISSED), codes or changed
    if not findings:
        return HARMLESS_QUIET, ""
    is_error = any(finding.level is Severity.ERROR for finding in findings)
    return (HARMLESS_ERROR if is_error else HARMLESS_WARNED), codes


def _changed(
    reruns: ForkedReruns, usual: Rerun, unsteady: frozenset[int], findings: tuple[Finding, ...], n_schedules: int
) -> str:
    """Return a schedule that changes a value; "" if none does."""
    pairs = [finding.pair for finding in findings if finding.pair is not None]
    for pair in pairs:
        watched = reruns.run(Schedule(reruns.program), (pair,))
        for held in Schedules(reruns.program).schedules(pair):
            if differences(watched, reruns.run(held, (pair,)), pair, unsteady):
                return str(held)
    for seed in range(n_schedules):
        schedule = Schedule(reruns.program, seed=seed)
        if differences(usual, reruns.run(schedule), None, unsteady):
            return str(schedule)
    return ""


def check(path: Path, n_schedules: int, folder: Path) -> Iterator[tuple[Deletion, str, str]]:
    """Yield each deletion of a file, and what becomes of it."""
    expected = markers.read(path)
    if expected.ranks > 1:
        return
    source = path.read_text()
    for deletion in deletions(source):
        mutant = folder / path.name
        mutant.write_text(without(source, deletion))
        try:
            yield deletion, *judge(reruns_of(mutant, expected.devices), n_schedules)
        except ScriptError as error:
            yield deletion, FAILS, str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=4)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    files = given.files or sorted((ROOT / "fixtures").glob("*/*good*.py"))
    table: dict[str, Counter[str]] = {}
    folder = Path(tempfile.mkdtemp(prefix="syncheck-mutation-"))  # no object that a child would delete with the folder
    try:
        for path in files:
            for deletion, verdict, example in check(path, given.schedules, folder):
                table.setdefault(deletion.call, Counter())[verdict] += 1
                if given.verbose or verdict in {MATTERS_MISSED, HARMLESS_ERROR}:
                    where = path.resolve().relative_to(ROOT) if path.resolve().is_relative_to(ROOT) else path
                    print(f"{where}:{deletion.line}: {deletion.text}: {verdict} {example}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(table)


def show(table: dict[str, Counter[str]]) -> None:
    """Print the counts by deleted call."""
    verdicts = [MATTERS_REPORTED, MATTERS_MISSED, HARMLESS_QUIET, HARMLESS_WARNED, HARMLESS_ERROR, FAILS, UNSTEADY]
    calls = sorted(table)
    print("| deletion | " + " | ".join(calls) + " | all |")
    print("| --- |" + " --- |" * (len(calls) + 1))
    for verdict in verdicts:
        counts = [table[call][verdict] for call in calls]
        print(f"| {verdict} | " + " | ".join(map(str, counts)) + f" | {sum(counts)} |")


if __name__ == "__main__":
    main()
