"""Conditions whose value is not known: which branch is taken."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from syncheck.lint import nodes

_FEW = 3
Flipped = frozenset[int]
"""The numbers of the conditions that are decided in another way than usual."""


class Decisions:
    """Decides open conditions; the same condition is decided in the same way.

    Attributes:
        n_bound: how often each name was bound.

    Args:
        flipped: which ones are decided in another way than usual, by their order.
    """

    def __init__(self, flipped: Flipped = frozenset()) -> None:
        self._flipped = flipped
        self._made: dict[str, bool] = {}  # text of a condition -> how it was decided
        self._about: dict[str, set[str]] = {}  # word -> the texts with it
        self._guards: list[bool] = []
        self.n_bound: dict[str, int] = {}
        self._n_before = 0
        self._is_closed = False
        self._is_chosen = False

    @property
    def are_open(self) -> bool:
        """Whether any condition had to be decided."""
        return bool(self._guards) or self._is_chosen

    @contextmanager
    def usual(self) -> Iterator[None]:
        """Decide all conditions in a block as usual, and on no path in another way."""
        before, self._made, self._is_closed = self._made, {}, True
        try:
            yield
        finally:
            self._made, self._is_closed = before, False

    def decide(self, test: ast.expr, *, usual: bool = True) -> bool:
        """Return whether a condition is taken to be true; `usual`: how it is decided at first."""
        asked, negated = _plain(test)
        text = nodes.text(asked)
        if text not in self._made and self._is_closed:
            self._is_chosen = True
            self._made[text] = usual != negated
        elif text not in self._made:
            is_flipped = len(self._guards) in self._flipped
            self._guards.append(not usual)
            self._made[text] = (usual != is_flipped) != negated
            for word in words_of_source(text):
                self._about.setdefault(word, set()).add(text)
        return self._made[text] != negated

    def forget(self, name: str) -> None:
        """A name stands for something else now: conditions with it are open again."""
        self.n_bound[name] = self.n_bound.get(name, 0) + 1
        for text in self._about.pop(name, ()):
            self._made.pop(text, None)

    def enter(self, parameters: Iterable[str]) -> None:
        """A function is called: its parameters are bound, which changes no condition of its caller."""
        for name in parameters:
            self.n_bound[name] = self.n_bound.get(name, 0) + 1

    def begin(self) -> None:
        """The function that is of interest begins: what was decided so far only prepares its call."""
        self._n_before = len(self._guards)

    def others(self) -> list[Flipped]:
        """Return other ways to decide the conditions that were met; all of them where they are few.

        A path that a guard ends is short, and there is one for each guard: these come after, and last what was decided
        before the function of interest.
        """
        own = range(self._n_before, len(self._guards))
        guards = [number for number in own if self._guards[number]]
        branches = [number for number in own if not self._guards[number]]
        found: list[Flipped] = []
        if len(branches) <= _FEW:
            for count in range(len(branches), 0, -1):
                found += [frozenset(chosen) for chosen in itertools.combinations(branches, count)]
        else:
            found = [frozenset(branches), *(frozenset((number,)) for number in branches)]
        return found + [frozenset((number,)) for number in (*guards, *range(self._n_before))]


def _plain(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return what a condition asks, and whether it asks for the contrary: `not x`, `x is False` ask for `x`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=asked):
            return asked, True
        case ast.Compare(
            left=asked, ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(value=bool(value))]
        ):
            return asked, value != isinstance(how, ast.Is)
        case _:
            return test, False


@lru_cache(maxsize=4096)
def words_of_source(text: str) -> tuple[str, ...]:
    """Return the words of an expression, each once and in order."""
    return tuple(sorted(set(re.findall(r"\w+", text))))
