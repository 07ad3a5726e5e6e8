"""The text changes of a fix, for formats that do not represent statements and calls."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from syncheck.findings import Edit
from syncheck.lint.files import lines_of
from syncheck.lint.fixes import codemods


@dataclass(frozen=True, slots=True)
class Replacement:
    """Lines of a file, and the text that replaces them.

    Attributes:
        first: the first line, from 1.
        last: the line after the last one; equal to `first` if text is only inserted before that line.
        text: the new lines, with line endings.
    """

    first: int
    last: int
    text: str


def replacements(source: str, edits: Sequence[Edit]) -> tuple[Replacement, ...]:
    """Return the text changes that edits make; none if any of the edits cannot be applied."""
    try:
        changed, done = codemods.apply(source, edits)
    except (SyntaxError, ValueError):
        return ()
    if len(done) < len(set(edits)):
        return ()
    before, after = lines_of(source), lines_of(changed)
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return tuple(
        Replacement(start + 1, stop + 1, "".join(after[new:new_stop]))
        for kind, start, stop, new, new_stop in steps
        if kind != "equal"
    )
