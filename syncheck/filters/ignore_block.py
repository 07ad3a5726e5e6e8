"""`with syncheck.ignore("SYN201"):` what the work submitted in the block does wrong is not reported.

`with syncheck.allow_sync("metrics"):` says the same of host synchronizations that are meant.
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
        codes: the codes of the rules that are ignored in it.
        path, line: where it stands.
    """

    codes: frozenset[str]
    path: str
    line: int


_current: ContextVar[tuple[Ignored, ...]] = ContextVar("syncheck.ignore", default=())
"""The blocks that this thread, or this task of asyncio, is in."""
running: list[Ignored] = []
"""The blocks that any of them is in: as long as there are none, no check is needed."""
entered: set[Ignored] = set()
"""The blocks that were entered since this was emptied last."""
used: set[Ignored] = set()
"""The blocks, of those, that have silenced something."""


@contextmanager
def ignore(*rules: str) -> Iterator[None]:
    """Do not report some rules for what this thread, or task, submits in a block; it has no effect outside a check.

    Args:
        rules: codes, prefixes or names.

    Raises:
        ConfigError: no rule, or one that does not exist.
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
"""The rules that `allow_sync` is about."""


@contextmanager
def allow_sync(reason: str) -> Iterator[None]:
    """Declare that the host waits in a block on purpose: to log a number, to write a checkpoint.

    Args:
        reason: why, for whoever reads the program.

    Raises:
        ConfigError: there is no reason.
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
        # a generator may end its block while others have begun, or where it is in none
        _current.set(tuple(other for other in _current.get() if other is not block))


def _caller(frame: FrameType) -> FrameType:
    """Return the frame that entered a block: not one of contextlib."""
    while frame.f_back is not None and frame.f_globals.get("__name__") in {"contextlib", __name__}:
        frame = frame.f_back
    return frame


def current() -> tuple[Ignored, ...]:
    """Return the blocks that this thread, or task, is in."""
    return _current.get()


def covers(blocks: tuple[Ignored, ...], rule: Rule) -> bool:
    """Return whether a rule is ignored in one of some blocks, and mark that one as used."""
    block = next((block for block in blocks if rule.code in block.codes), None)
    if block is not None:
        used.add(block)
    return block is not None


def begin() -> None:
    """A check begins: no block was entered yet, unless it still runs."""
    entered.clear()
    used.clear()
    entered.update(running)
