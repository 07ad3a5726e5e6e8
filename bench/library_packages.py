"""How many of the planted bugs in small packages in the style of libraries the linter reports.

Run it as `python bench/library_packages.py`. Files of `library_packages` have one package per line: `package`, what is
wrong (`file`, `line`, `pattern`, `why`), how much of the program shows it (`reach`: `function`, `class_or_file`,
`cross_file`), the `half` that it belongs to, and the sources of the `bug` and of its correct twin, `ok`. Some have a
`program` that uses them, for `library_runs.py`. `is_correct` marks a "bug" that turned out to be correct.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from syncheck.lint.engine import lint_data
from syncheck.rules.model import Severity

FOLDER = Path(__file__).with_suffix("")


def packages(halves: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the packages of some halves, or of all of them."""
    for path in sorted(FOLDER.glob("*.jsonl")):
        if not halves or path.stem in halves:
            yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def is_reported(sources: dict[str, str]) -> bool:
    """Return whether the linter reports an error or a warning in a package."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in sources]
        for path, text in zip(paths, sources.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = [finding for path in paths for finding in lint_data(str(path), path.read_bytes()).findings]
    return any(finding.level is not Severity.ADVICE for finding in found)


def main() -> None:
    """Print how many packages were reported, by half and reach."""
    n, bugs, n_correct, twins = (Counter[tuple[str, str]]() for _ in range(4))
    for package in packages():
        kind = package["half"], package["reach"]
        is_bug = not package.get("is_correct", False)
        correct = [package["ok"], *([] if is_bug else [package["bug"]])]
        n[kind] += is_bug
        bugs[kind] += is_bug and is_reported(package["bug"])
        n_correct[kind] += len(correct)
        twins[kind] += sum(map(is_reported, correct))
    print("| half | reach | bugs reported | correct programs reported |\n| --- | --- | --- | --- |")
    for half, reach in sorted(n):
        kind = half, reach
        print(f"| {half} | {reach} | {bugs[kind]} of {n[kind]} | {twins[kind]} of {n_correct[kind]} |")


if __name__ == "__main__":
    main()
