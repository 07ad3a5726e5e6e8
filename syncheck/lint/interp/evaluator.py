"""The interpreter, as far as its own parts and the models of libraries need it."""

import ast
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from syncheck.lint.interp.collectives import Collectives
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.operators import Operators
from syncheck.lint.interp.picks import Picks
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.transfers import Transfers
from syncheck.lint.interp.values import Call, Context, Function, Sequence, Value


class Evaluator(Protocol):
    """Follows a program.

    Attributes:
        machine: streams, events and memory.
        operators: runs torch's operators on the machine.
        transfers: runs copies between devices.
        collectives: runs collectives.
        steps_left: statements that may still be followed.
    """

    machine: Machine
    operators: Operators
    transfers: Transfers
    collectives: Collectives
    picks: Picks
    steps_left: int

    # -- expressions

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Value:
        """Return what an expression stands for."""
        ...

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """Return an attribute of a value."""
        ...

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind a target to a value."""
        ...

    def observe_truth_test(self, value: Value) -> None:
        """Take it in that a condition looks at a value."""
        ...

    def forget_decisions(self, name: str) -> None:
        """A name stands for something else now: conditions with it are open again."""
        ...

    def enter(self, parameters: Iterable[str]) -> None:
        """A function is called: its parameters stand for something else now."""
        ...

    def condition(self, test: ast.expr, scope: Scope) -> bool | None:
        """Evaluate a condition; None where it is not known."""
        ...

    def decide(self, test: ast.expr, *, usual: bool = True) -> bool:
        """Choose a branch where a condition is not known; `usual`: which one at first."""
        ...

    def decide_as_usual(self) -> AbstractContextManager[None]:
        """Decide all conditions in a block as usual, and on no path in another way."""
        ...

    # -- calls

    def call(self, function: Value, call: Call, scope: Scope | None = None) -> Value:
        """Call a value."""
        ...

    def call_function(self, function: Function, call: Call) -> Value:
        """Follow a function of the program."""
        ...

    def call_method(self, owner: Value, name: str, call: Call) -> Value:
        """Call a method of a value that is no object of the program."""
        ...

    def call_unknown(self, name: str, call: Call) -> Value:
        """Call code that is not known; `name` is "" where that is not known either."""
        ...

    def call_in_new_thread(self, target: Value, call: Call) -> Value:
        """Run a function as a thread of its own would, from beginning to end."""
        ...

    def decorate(self, function: Value, decorator: ast.expr, scope: Scope) -> Value:
        """Apply a decorator."""
        ...

    def escape(self, value: Value) -> None:
        """A value goes where it cannot be followed."""
        ...

    # -- loops, blocks and contexts

    def items(self, source: Value) -> Iterator[Value]:
        """Yield the items of a value that are known."""
        ...

    def iterations(self, source: Value, most: int = 0) -> Iterator[Value]:
        """Yield what a loop over a value gets in the iterations that are followed."""
        ...

    def listed(self, value: Value) -> Sequence:
        """Return what `list` makes of a value."""
        ...

    def context(self, value: Value, node: ast.expr) -> Context:
        """Return what a value does as a context manager."""
        ...

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements that yield nothing."""
        ...

    def block(self, body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """Run statements; a generator, so that a generator function of the program can be one."""
        ...
