"""Interface of the interpreter for its own components and the models of libraries."""

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
    """Interprets a program.

    Attributes:
        machine: the streams, events and memory.
        operators: runs torch's operators on the machine.
        transfers: runs copies between devices.
        collectives: runs collectives.
        picks: finds items under unknown keys.
        steps_left: number of statements that may still be interpreted.
    """

    machine: Machine
    operators: Operators
    transfers: Transfers
    collectives: Collectives
    picks: Picks
    steps_left: int

    # -- expressions

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Value:
        """Return the value of an expression."""
        ...

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """Return an attribute of a value."""
        ...

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind a target to a value."""
        ...

    def observe_truth_test(self, value: Value) -> None:
        """Record that a condition tests a value."""
        ...

    def forget_decisions(self, name: str) -> None:
        """Drop the decisions on conditions that mention a name, because it is bound to something else now."""
        ...

    def note_object(self, node: ast.expr) -> None:
        """Note that the value of an expression is not None, if it is a variable."""
        ...

    def is_object(self, node: ast.expr) -> bool:
        """Return whether an expression is a variable that is known not to be None."""
        ...

    def enter(self, parameters: Iterable[str]) -> None:
        """Record that the parameters of a called function are bound to something else now."""
        ...

    def condition(self, test: ast.expr, scope: Scope) -> bool | None:
        """Evaluate a condition; return None if its value is unknown."""
        ...

    def decide(self, test: ast.expr, *, by_default: bool = True) -> bool:
        """Choose a branch at an undetermined condition; `by_default`: the branch to take by default."""
        ...

    def decide_by_default(self) -> AbstractContextManager[None]:
        """Take the default branch at all undetermined conditions in a block, on every path."""
        ...

    # -- calls

    def call(self, function: Value, call: Call, scope: Scope | None = None) -> Value:
        """Call a value."""
        ...

    def call_function(self, function: Function, call: Call) -> Value:
        """Interpret a call of a function of the program."""
        ...

    def call_method(self, owner: Value, name: str, call: Call) -> Value:
        """Call a method of a value that is not an object of the program."""
        ...

    def call_unknown(self, name: str, call: Call) -> Value:
        """Call unknown code; `name` is "" if its name is unknown too."""
        ...

    def call_in_new_thread(self, target: Value, call: Call) -> Value:
        """Run a function from beginning to end, as in a new thread."""
        ...

    def decorate(self, function: Value, decorator: ast.expr, scope: Scope) -> Value:
        """Apply a decorator."""
        ...

    def escape(self, value: Value) -> None:
        """Mark a value as escaped: it is passed to code that is not interpreted."""
        ...

    # -- loops, blocks and contexts

    def items(self, source: Value) -> Iterator[Value]:
        """Yield the known items of a value."""
        ...

    def iterations(self, source: Value, most: int = 0) -> Iterator[Value]:
        """Yield the values that a loop gets in the iterations that are interpreted."""
        ...

    def listed(self, value: Value) -> Sequence:
        """Return the result of `list(value)`."""
        ...

    def context(self, value: Value, node: ast.expr) -> Context:
        """Return the context manager that a value stands for."""
        ...

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Run statements that yield nothing."""
        ...

    def block(self, body: list[ast.stmt], scope: Scope) -> Iterator[Value]:
        """Run statements. This is a generator, so that generator functions of the program can be interpreted lazily."""
        ...
