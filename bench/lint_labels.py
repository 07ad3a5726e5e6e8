"""How much of the hand-labeled code of public repositories the linter reports, both bugs and correct code.

Run it as `python bench/lint_labels.py LABELS FOLDER`. LABELS is a file with one JSON object per line: `repo`, `commit`,
`path`, `line` (and `lines`, if several are as good), `pattern`, `label` (`true_bug`, `likely_true`, `style`,
`cannot_tell`, `correct`) and for bugs `reach` (`function`, `class_or_file`, `cross_file`: how much of the program shows
the bug). FOLDER has the checkouts, each named
`<owner>+<name>`, or `<owner>+<name>@<version>` if the commit names a version. Nothing is downloaded.

Labels are split into two halves by file, so that improvements made for one half can be measured on the other.
"""

import argparse
import hashlib
import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from syncheck.findings import Finding
from syncheck.lint.engine import lint_data
from syncheck.rules.model import Severity

NEAR = 6
"""Maximum distance in lines between a label and a finding about it."""
FAMILIES = {
    "missing-wait-stream": ("SYN1", "SYN2", "SYN406"),
    "missing-record-stream": ("SYN1", "SYN2"),
    "nonblocking-d2h-read": ("SYN3", "SYN402", "SYN407"),
    "event-wait-not-host": ("SYN401", "SYN402", "SYN407", "SYN30"),
    "async-work-dropped": ("SYN6",),
    "unsync-timing": ("SYN701", "SYN402", "SYN502"),
    "event-timing": ("SYN702", "SYN603", "SYN404"),
    "elapsed-time": ("SYN40",),
    "event-misuse": ("SYN105", "SYN4"),
    "pinned-buffer-overwritten": ("SYN30",),
    "graph": ("SYN9",),
}
"""Pattern of a label, or a prefix of it -> codes, or prefixes of codes, of the rules that report it."""


@dataclass(frozen=True)
class Site:
    """A labeled location."""

    repo: str
    commit: str
    path: str
    line: int
    pattern: str
    label: str
    reach: str
    lines: tuple[int, ...] = ()

    @property
    def half(self) -> str:
        """The half that it belongs to."""
        digest = hashlib.sha256(f"{self.repo} {self.path}".encode()).digest()
        return "AB"[digest[0] & 1]

    @property
    def kind(self) -> str:
        """The row in the table that it belongs to."""
        return f"{self.label} ({self.reach})" if self.reach else self.label

    def file(self, folder: Path) -> Path:
        """Return the path of its file."""
        name = self.repo.replace("/", "+")
        versioned = folder / f"{name}@{self.commit.rpartition(' ')[2]}"
        return (versioned if versioned.is_dir() else folder / name) / self.path

    def is_reported_by(self, finding: Finding) -> bool:
        """Return whether a finding is about this site. For a bug, the finding's rule must also match the pattern."""
        locations = (finding.location, *finding.related)
        spans = [(location.frame.line - NEAR, location.frame.end_line + NEAR) for location in locations]
        near = any(first <= line <= last for first, last in spans for line in (self.line, *self.lines))
        if not near or finding.level is Severity.ADVICE:
            return False
        families = [codes for begin, codes in FAMILIES.items() if self.pattern.startswith(begin)]
        is_bug = self.label in {"true_bug", "likely_true"}
        return not is_bug or any(finding.rule.code.startswith(code) for codes in families for code in codes)


def read(path: Path) -> list[Site]:
    """Return the labeled sites in a file."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    names = ("repo", "commit", "path", "line", "pattern", "label")
    return [
        Site(*(row[name] for name in names), reach=row.get("reach", ""), lines=tuple(row.get("lines", ())))
        for row in rows
    ]


def findings_of(path: Path) -> tuple[Finding, ...]:
    """Lint one file."""
    return lint_data(str(path), path.read_bytes()).findings


def main() -> None:
    """Print how many sites were reported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="print one line per site")
    parser.add_argument("--half", choices="AB", help="show only the sites of this half")
    args = parser.parse_args()
    sites = read(args.labels)
    files = sorted({site.file(args.folder) for site in sites})
    missing = [path for path in files if not path.is_file()]
    present = [path for path in files if path.is_file()]
    with ProcessPoolExecutor() as pool:
        found = dict(zip(present, pool.map(findings_of, present), strict=True))
    table: dict[str, dict[str, list[int]]] = defaultdict(lambda: {"A": [0, 0], "B": [0, 0]})
    for site in sites:
        reports = [finding for finding in found.get(site.file(args.folder), ()) if site.is_reported_by(finding)]
        counts = table[site.kind][site.half]
        counts[0] += bool(reports)
        counts[1] += 1
        if args.show and args.half in {None, site.half}:
            codes = ", ".join(f"{finding.rule.code}:{finding.location.frame.line}" for finding in reports)
            print(f"{site.half} {site.kind:28} {codes or '-':24} {site.repo} {site.path}:{site.line} {site.pattern}")
    print("| label | half A | half B | both |\n| --- | --- | --- | --- |")
    for kind, halves in sorted(table.items()):
        (hit_a, all_a), (hit_b, all_b) = halves["A"], halves["B"]
        print(f"| {kind} | {hit_a} of {all_a} | {hit_b} of {all_b} | {hit_a + hit_b} of {all_a + all_b} |")
    for path in missing:
        print(f"missing: {path}")


if __name__ == "__main__":
    main()
