"""How many synchronizations the linter misses when they are deleted from public code, one at a time.

Run it as `python -m bench.lint_deletions FOLDER`. FOLDER has checkouts named `<owner>+<name>`. Nothing is downloaded.

It deletes statements that only wait or record, in files that use streams, events, pinned copies or asynchronous
collectives. A deletion counts as reported if the linter then has an error or warning that it does not have for the
original file. Many deletions are harmless: the synchronization was for a clock or redundant, or other code orders the
same work. So the share reported says little by itself. It serves to compare two versions of the linter and to draw
samples for review.

Repositories are split into two halves by name, so that fixes made for one half can be measured on the other. Identical
functions, as in copies of a library, count once.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.deletions import Deletion, deletions, without
from syncheck.lint.engine import lint_data
from syncheck.rules.model import Severity

_WORDS = re.compile(
    rb"\.(?:Stream|Event|stream|current_stream|synchronize)\(|async_op|isend|irecv|non_blocking|wait_stream|record_stream"
)
_NOT_FOR_GPUS = frozenset(
    "proc process processes popen p thread threads cond condition cv barrier barriers lock future futures fut manager "
    "threading asyncio ray stop shutdown cpu mps pool".split()
)
"""Last words of receivers that have nothing to do with GPUs."""
_PARTS = re.compile(r"[A-Za-z]+")
New = list[tuple[str, int, str]]
"""Rule, line and message of findings."""


@dataclass(frozen=True)
class Case:
    """One deletion.

    Attributes:
        repo: "owner+name".
        path: path of the file in its repository.
    """

    repo: str
    path: str
    deletion: Deletion

    @property
    def half(self) -> str:
        """The half that its repository belongs to."""
        return "AB"[hashlib.sha256(self.repo.encode()).digest()[0] & 1]

    @property
    def key(self) -> bytes:
        """The sort key that determines the order in which cases are chosen."""
        return hashlib.sha256(f"{self.repo} {self.path} {self.deletion.line}".encode()).digest()


def cases_of(folder: Path, repo: str) -> list[tuple[Case, str]]:
    """Return the deletions of a repository, each with a hash that is equal for copies of the function."""
    found: list[tuple[Case, str]] = []
    for path in sorted((folder / repo).rglob("*.py")):
        if path.is_file() and not path.is_symlink():
            name = str(path.relative_to(folder / repo))
            found += [(Case(repo, name, deletion), same) for deletion, same in _in_file(path)]
    return found


def _in_file(path: Path) -> Iterator[tuple[Deletion, str]]:
    data = path.read_bytes()
    if b"torch" not in data or not _WORDS.search(data):
        return
    warnings.simplefilter("ignore", SyntaxWarning)
    try:
        source = data.decode()
        tree = ast.parse(source)
    except (ValueError, SyntaxError):
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for deletion in deletions(source):
        if _is_for_gpus(deletion):
            around = [node for node in functions if node.lineno <= deletion.line <= (node.end_lineno or 0)]
            body: ast.AST = max(around, key=lambda node: node.lineno, default=tree)
            where = deletion.line - body.lineno if isinstance(body, ast.stmt) else deletion.line
            yield deletion, hashlib.sha256(f"{ast.dump(body)} {where}".encode()).hexdigest()


def _is_for_gpus(deletion: Deletion) -> bool:
    receiver = deletion.text.partition("(")[0].rpartition(".")[0]
    words = [word.lower() for word in _PARTS.findall(receiver)]
    return not words or words[-1] not in _NOT_FOR_GPUS


def choose_cases(folder: Path, of_file: int, of_repo: int) -> list[Case]:
    """Return the cases to try: for each call at most some per file and per repository, chosen by hash."""
    repos = sorted(path.name for path in folder.iterdir() if "+" in path.name)
    with ProcessPoolExecutor() as pool:
        found = [each for every in pool.map(partial(cases_of, folder), repos) for each in every]
    once: dict[str, Case] = {}
    for case, same in found:
        once.setdefault(same, case)
    counts: Counter[tuple[str, ...]] = Counter()
    kept: list[Case] = []
    for case in sorted(once.values(), key=lambda case: case.key):
        in_file, in_repo = (case.repo, case.path, case.deletion.call), (case.repo, case.deletion.call)
        if counts[in_file] < of_file and counts[in_repo] < of_repo:
            counts.update([in_file, in_repo])
            kept.append(case)
    return kept


def new_findings(folder: Path, cases: list[Case]) -> list[New]:
    """Return the new findings that each deletion in one file causes."""
    path = folder / cases[0].repo / cases[0].path
    source = path.read_text(encoding="utf-8")
    before = Counter((code, line) for code, line, _ in _serious_findings(path, source))
    found: list[New] = []
    for case in cases:
        left = before.copy()
        new: New = []
        for code, line, message in _serious_findings(path, without(source, case.deletion)):
            if left[code, line]:
                left[code, line] -= 1
            else:
                new.append((code, line, message))
        found.append(new)
    return found


def _serious_findings(path: Path, source: str) -> New:
    findings = lint_data(os.fspath(path), source.encode()).findings
    heavy = [finding for finding in findings if finding.level is not Severity.ADVICE]
    return [(finding.rule.code, finding.location.frame.line, finding.message) for finding in heavy]


def main() -> None:
    """Print how many deletions were reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--of-file", type=int, default=2, help="maximum deletions of one call per file")
    parser.add_argument("--of-repo", type=int, default=6, help="maximum deletions of one call per repository")
    parser.add_argument("--half", choices="AB", help="use only repositories of this half")
    parser.add_argument("--list", type=Path, help="write the cases to this file, one JSON object per line")
    args = parser.parse_args()
    cases = [case for case in choose_cases(args.folder, args.of_file, args.of_repo) if args.half in {None, case.half}]
    by_file: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        by_file[case.repo, case.path].append(case)
    with ProcessPoolExecutor() as pool:
        results = [new for each in pool.map(partial(new_findings, args.folder), by_file.values()) for new in each]
    table: dict[str, dict[str, list[int]]] = defaultdict(lambda: {"A": [0, 0], "B": [0, 0]})
    lines: list[str] = []
    for case, new in zip((case for each in by_file.values() for case in each), results, strict=True):
        for row in (case.deletion.call, "all"):
            table[row][case.half][0] += bool(new)
            table[row][case.half][1] += 1
        lines.append(json.dumps({"half": case.half, **asdict(case), "new": new}))
    if args.list:
        args.list.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print("| deleted call | half A | half B |\n| --- | --- | --- |")
    for row, halves in sorted(table.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"| {row} | {' | '.join(f'{hits} of {n}' for hits, n in halves.values())} |")


if __name__ == "__main__":
    main()
