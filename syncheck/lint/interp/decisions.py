"""Undetermined conditions, and the branches that are taken at them."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import lru_cache

from syncheck.lint import nodes

_FEW = 3
_N_BEFORE_EARLY = 2
"""Number of other paths before those that leave early."""
Flipped = frozenset[int | tuple[str, bool]]
"""The numbers of the conditions that are decided against their default, and conditions with their decisions."""


class Turn(Enum):
    """When to try the other decision at a condition, on another path.

    Attributes:
        FIRST: before all others, because it chooses which method does all the work.
        EARLY: after a few others, because it leaves the path after work has started.
        NORMAL: after these.
    """

    FIRST = auto()
    EARLY = auto()
    NORMAL = auto()


class Decisions:
    """Decides undetermined conditions. The same condition is always decided the same way.

    Attributes:
        n_bound: name -> how often it was bound.

    Args:
        flipped: the conditions to decide against their default, by their order; for other conditions, the decision.
    """

    def __init__(self, flipped: Flipped = frozenset()) -> None:
        self._flipped = {number for number in flipped if isinstance(number, int)}
        self._given = dict(chosen for chosen in flipped if not isinstance(chosen, int))
        self._made: dict[str, bool] = {}  # text of a condition -> the decision
        self._about: dict[str, set[str]] = {}  # word -> the conditions that contain it
        self._guards: list[bool] = []
        self._turns: list[Turn] = []
        self._objects: set[str] = set()  # variables that are not None
        self.n_bound: dict[str, int] = {}
        self._n_before = 0
        self._is_closed = False
        self._is_chosen = False

    @property
    def are_open(self) -> bool:
        """Whether any condition was undetermined."""
        return bool(self._guards) or self._is_chosen

    @contextmanager
    def by_default(self) -> Iterator[None]:
        """Decide all conditions in a block by their defaults, on every path."""
        before, self._made, self._is_closed = self._made, {}, True
        try:
            yield
        finally:
            self._made, self._is_closed = before, False

    def decide(self, test: ast.expr, *, by_default: bool = True, turn: Turn = Turn.NORMAL) -> bool:
        """Return whether a condition is taken to be true.

        Args:
            test: the condition.
            by_default: its default.
            turn: when to try the other decision, on another path.
        """
        asked, negated = _plain(test)
        text = nodes.text(asked)
        if text not in self._made and self._is_closed:
            self._is_chosen = True
            self._made[text] = by_default != negated
        elif text not in self._made:
            if text in self._given:  # until a variable of it is bound to something else
                self._is_chosen = True
                self._made[text] = self._given.pop(text)
            else:
                is_flipped = len(self._guards) in self._flipped
                self._turns.append(turn)
                self._guards.append(not by_default)
                self._made[text] = (by_default != is_flipped) != negated
            for word in words_of_source(text):
                self._about.setdefault(word, set()).add(text)
        return self._made[text] != negated

    def excludes(self, test: ast.expr) -> bool:
        """Return whether an earlier decision on the same condition makes it false."""
        asked, negated = _plain(test)
        made = self._made.get(nodes.text(asked))
        return made is not None and made == negated

    def note_object(self, node: ast.expr) -> None:
        """Note that the value of an expression is not None, if it is a variable: an attribute of it has been used."""
        if isinstance(node, ast.Name):
            self._objects.add(node.id)

    def is_object(self, node: ast.expr) -> bool:
        """Return whether an expression is a variable that is known not to be None."""
        return isinstance(node, ast.Name) and node.id in self._objects

    def forget(self, name: str) -> None:
        """Drop the decisions on conditions that mention a name, because it is bound to something else now."""
        self._objects.discard(name)
        self.n_bound[name] = self.n_bound.get(name, 0) + 1
        if name in self._about:
            for text in self._about.pop(name):
                self._made.pop(text, None)

    def enter(self, parameters: Iterable[str]) -> None:
        """Count the bindings of a called function's parameters. They do not change the conditions of its caller."""
        for name in parameters:
            self._objects.discard(name)
            self.n_bound[name] = self.n_bound.get(name, 0) + 1

    def begin(self) -> None:
        """Start the function under analysis: earlier decisions only prepared its call."""
        self._n_before = len(self._guards)

    def others(self) -> list[Flipped]:
        """Return other ways to decide the conditions seen so far, or all of them if they are few.

        The paths through another method come first. Those that leave early after work has started come after the first
        two others. A path that another guard ends is short, and there is one per guard, so these paths come after the
        others. The paths that change a decision made before the function under analysis come last.
        """
        own = range(self._n_before, len(self._guards))
        first = [number for number in own if self._turns[number] is Turn.FIRST]
        early = [number for number in own if self._turns[number] is Turn.EARLY][:_FEW]
        others = [number for number in own if number not in {*first, *early}]
        guards = [number for number in others if self._guards[number]]
        branches = [number for number in others if not self._guards[number]]
        found: list[Flipped] = []
        if len(branches) <= _FEW:
            for count in range(len(branches), 0, -1):
                found += [frozenset(chosen) for chosen in itertools.combinations(branches, count)]
        else:
            found += [frozenset(branches), *_each(branches)]
        return [
            *_each(first), *found[:_N_BEFORE_EARLY], *_each(early), *found[_N_BEFORE_EARLY:],
            *_each((*guards, *range(self._n_before))),
        ]  # fmt: skip


def _each(numbers: Iterable[int]) -> list[Flipped]:
    return [frozenset((number,)) for number in numbers]


def conditions(test: ast.expr, *, value: bool) -> Iterator[tuple[str, bool]]:
    """Yield the conditions, as `Decisions` knows them, that give a test some value, each with its decision."""
    match test:
        case ast.BoolOp(op=operator, values=parts):
            is_any = value == isinstance(operator, ast.Or)
            for part in parts[:1] if is_any else parts:
                yield from conditions(part, value=value)
        case _:
            asked, negated = _plain(test)
            yield nodes.text(asked), value != negated


def queried(test: ast.expr) -> tuple[ast.expr | None, bool]:
    """Return the call of `query` that a condition consists of, if any, and the outcome that shows completion."""
    asked, negated = _plain(test)
    is_query = isinstance(asked, ast.Call) and isinstance(asked.func, ast.Attribute) and asked.func.attr == "query"
    return (asked if is_query else None), not negated


def _plain(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return the expression that a condition tests, and whether it is negated: `not x` and `x is False` test `x`."""
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
    """Return the words of an expression, sorted and without duplicates."""
    return tuple(sorted(set(re.findall(r"\w+", text))))
