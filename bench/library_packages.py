"""How many of the planted bugs in small packages in the style of libraries the linter reports.

Run it as `python bench/library_packages.py`. `library_packages.jsonl` has one package per line: `package`, what is
wrong (`file`, `line`, `pattern`, `why`), how much of the program shows it (`reach`: `function`, `class_or_file`,
`cross_file`), the `half` that it belongs to, and the sources of the `bug` and of its correct twin, `ok`. Improvements
were made for half A only.
"""

import json
import tempfile
from collections import Counter
from pathlib import Path

from syncheck.lint.engine import lint_data
from syncheck.rules.model import Severity

PACKAGES = Path(__file__).with_suffix(".jsonl")


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
    n, bugs, twins = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for line in PACKAGES.read_text(encoding="utf-8").splitlines():
        package = json.loads(line)
        kind = package["half"], package["reach"]
        n[kind] += 1
        bugs[kind] += is_reported(package["bug"])
        twins[kind] += is_reported(package["ok"])
    print("| half | reach | bugs reported | correct twins reported |\n| --- | --- | --- | --- |")
    for half, reach in sorted(n):
        kind = half, reach
        print(f"| {half} | {reach} | {bugs[kind]} of {n[kind]} | {twins[kind]} of {n[kind]} |")


if __name__ == "__main__":
    main()
