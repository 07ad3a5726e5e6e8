"""`with syncheck.ignore("SYN201"):` suppresses findings about work submitted in the block.

`with syncheck.allow_sync("metrics"):` suppresses findings about intended host synchronizations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NamedTuple

from syncheck.errors import ConfigError
from syncheck.rules import catalogue
from syncheck.rules.model import Rule
from syncheck.source.frames import frame_at


class Ignored(NamedTuple):
    """One `with` statement.

    Attributes:
        codes: codes of the rules that it ignores.
        path, line: its location.
    """

    codes: frozenset[str]
    path: str
    line: int


_current: ContextVar[tuple[Ignored, ...]] = ContextVar("syncheck.ignore", default=())
"""The blocks that this thread or asyncio task is in."""
running: list[Ignored] = []
"""The blocks that any thread or task is in; while this is empty, no check is needed."""
entered: set[Ignored] = set()
"""The blocks entered since the last call of `begin`."""
used: set[Ignored] = set()
"""The blocks among `entered` that have suppressed a finding."""


@contextmanager
def ignore(*rules: str) -> Iterator[None]:
    """Ignore some rules for the work that this thread or task submits in a block; no effect outside a check.

    Args:
        rules: codes, prefixes or names.

    Raises:
        ConfigError: no rule is given, or one does not exist.
    """
    if not rules:
        raise ConfigError("syncheck.ignore() names no rule", 'name the rules to ignore: syncheck.ignore("SYN201")')
    frame = _caller(frame_at(1))
    codes = catalogue.codes_of(rules)
    block = Ignored(codes, frame.f_code.co_filename, frame.f_lineno)
    entered.add(block)
    with _running(block):
        yield


ALLOWED_SYNCS = ("SYN801", "SYN806", "SYN807")
"""The rules that `allow_sync` suppresses."""


@contextmanager
def allow_sync(reason: str) -> Iterator[None]:
    """Declare that the host waits on purpose in a block, for example to log a number or write a checkpoint.

    Args:
        reason: why, for readers of the program.

    Raises:
        ConfigError: the reason is empty.
    """
    if not str(reason).strip():
        raise ConfigError("syncheck.allow_sync() needs a reason", 'say why: syncheck.allow_sync("metrics")')
    frame = _caller(frame_at(1))
    with _running(Ignored(frozenset(ALLOWED_SYNCS), frame.f_code.co_filename, frame.f_lineno)):
        yield


@contextmanager
def _running(block: Ignored) -> Iterator[None]:
    _current.set((*_current.get(), block))
    running.append(block)
    try:
        yield
    finally:
        running.remove(block)
        # a generator may end its block after others have begun, or in a context without this block
        _current.set(tuple(other for other in _current.get() if other is not block))


def _caller(frame: FrameType) -> FrameType:
    """Return the frame that entered a block, skipping those of contextlib."""
    while frame.f_back is not None and frame.f_globals.get("__name__") in {"contextlib", __name__}:
        frame = frame.f_back
    return frame


def current() -> tuple[Ignored, ...]:
    """Return the blocks that this thread or task is in."""
    return _current.get()


def covers(blocks: tuple[Ignored, ...], rule: Rule) -> bool:
    """Return whether one of the blocks ignores a rule, and mark that block as used."""
    block = next((block for block in blocks if rule.code in block.codes), None)
    if block is not None:
        used.add(block)
    return block is not None


def begin() -> None:
    """Reset the bookkeeping at the start of a check, keeping the blocks that are still running."""
    entered.clear()
    used.clear()
    entered.update(running)
