"""The page of a rule as Markdown: its module's docstring and its examples."""

import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from syncheck.errors import REINSTALL
from syncheck.rules.model import Rule

# An installed package contains the examples; in a checkout, they are beside the package.
FOLDERS = (Path(__file__).parents[1] / "fixtures", Path(__file__).parents[2] / "fixtures")

_KINDS: tuple[Literal["bad", "good"], ...] = ("bad", "good")
_HALVES = {"lint": "`syncheck lint`", "run": "`syncheck run`"}
_MARKER = re.compile(r"#\s*(?:(?:expect|miss)(?:-lint|-run)?|devices):.*")


@dataclass(frozen=True, slots=True)
class Example:
    """An example program for a rule.

    Attributes:
        kind: "bad" for the program with the flaw, "good" for the same program without it.
        path: the file that it was read from.
        source: its text for readers, without the test markers.
    """

    kind: Literal["bad", "good"]
    path: Path
    source: str


def examples(rule: Rule) -> tuple[Example, ...]:
    """Read the rule's `bad.py` and `good.py`, in this order, skipping missing files."""
    folder = next((f for f in (root / rule.name for root in FOLDERS) if f.is_dir()), None)
    if folder is None:
        return ()
    paths = ((kind, folder / f"{kind}.py") for kind in _KINDS)
    return tuple(
        Example(kind, path, without_markers(path.read_text(encoding="utf-8"))) for kind, path in paths if path.is_file()
    )


def without_markers(source: str) -> str:
    """Remove the comments that are meant for tests, such as `# expect: SYN101` and `# devices: 2`.

    A line that contains nothing else is removed as well. Text inside strings is not changed.
    """
    lines = source.split("\n")
    emptied = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        marker = _MARKER.search(token.string) if token.type == tokenize.COMMENT else None
        if marker:
            row, column = token.start[0] - 1, token.start[1] + marker.start()
            lines[row] = lines[row][:column].rstrip()
            if not lines[row]:
                emptied.add(row)
    return "\n".join(line for row, line in enumerate(lines) if row not in emptied).strip("\n") + "\n"


def markdown(rule: Rule, halves: frozenset[str]) -> str:
    """Return the whole page of a rule.

    Args:
        rule: the rule to explain.
        halves: the parts of syncheck that can report it: "lint", "run", both or none.

    Raises:
        ValueError: `halves` contains anything else.
    """
    if unknown := sorted(halves - _HALVES.keys()):
        raise ValueError(f"halves are {sorted(_HALVES)}, not {unknown}")
    finders = " and ".join(text for half, text in _HALVES.items() if half in halves) or "nothing yet"
    parts = [
        f"# {rule.code} {rule.name}",
        f"Level: {rule.severity}. Found by: {finders}.",
        rule.doc.strip(),
        *(f"## {e.kind.title()} example\n\n```python\n{e.source}```" for e in examples(rule)),
    ]
    if not any(folder.is_dir() for folder in FOLDERS):
        parts.append(f"The examples are missing: syncheck is installed without its data; {REINSTALL}.")
    return "\n\n".join(parts) + "\n"
