"""`with syncheck.ignore("SYN201"):` what the work submitted in the block does wrong is not reported."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from syncheck.rules import catalogue
from syncheck.rules.model import Rule


class Ignored(NamedTuple):
    """One `with` statement.

    Attributes:
        codes: the codes of the rules that are ignored in it.
        path, line: where it stands.
    """

    codes: frozenset[str]
    path: str
    line: int


ignoring: dict[int, tuple[Ignored, ...]] = {}
"""Thread -> the blocks that it is in."""
entered: set[Ignored] = set()
"""The blocks that were entered since this was emptied last."""
used: set[Ignored] = set()
"""The blocks, of those, that have silenced something."""


@contextmanager
def ignore(*rules: str) -> Iterator[None]:
    """Do not report some rules for what this thread submits in a block; does nothing where nobody checks.

    Args:
        rules: codes, prefixes or names.

    Raises:
        ConfigError: a rule that does not exist.
    """
    frame = sys._getframe(2)  # noqa: SLF001  the documented way to get a frame; 1 is contextlib's
    codes = frozenset(rule.code for name in rules for rule in catalogue.matching(name))
    block = Ignored(codes, frame.f_code.co_filename, frame.f_lineno)
    thread = threading.get_ident()
    before = ignoring.get(thread, ())
    ignoring[thread] = (*before, block)
    entered.add(block)
    try:
        yield
    finally:
        if before:
            ignoring[thread] = before
        else:
            ignoring.pop(thread, None)


def covers(blocks: tuple[Ignored, ...], rule: Rule) -> bool:
    """Tell whether a rule is ignored in one of some blocks, and mark that one as used."""
    block = next((block for block in blocks if rule.code in block.codes), None)
    if block is not None:
        used.add(block)
    return block is not None


def begin() -> None:
    """A check begins: no block was entered yet, unless it still runs."""
    entered.clear()
    used.clear()
    entered.update(block for blocks in ignoring.values() for block in blocks)
