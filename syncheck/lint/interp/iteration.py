"""Iteration over values. On its way to a loop, a value is not bound to a name here, which would keep it alive."""

import ast
import itertools
from collections.abc import Iterator

from syncheck.lint.interp.arithmetic import MAX_ITERATIONS
from syncheck.lint.interp.contents import keys_of
from syncheck.lint.interp.control_flow import Raised, TooLongError
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.identities import Elements, has_identity
from syncheck.lint.interp.named_tuples import items_of_tuple
from syncheck.lint.interp.unknown import derived
from syncheck.lint.interp.values import (
    Call,
    Constant,
    Function,
    Generator,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Value,
)

FULL_LENGTH = 12
_MAX_LISTED = 16


def has_full_length(source: Value) -> bool:
    """Return whether a loop over something is interpreted to its end."""
    return isinstance(source, Sequence | Mapping) and not source.is_open and len(source.items) <= FULL_LENGTH


class Iteration:
    """Yields the items of values."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._elements = Elements()

    def items(self, source: Value) -> Iterator[Value]:
        """See `Evaluator`."""
        source = items_of_tuple(source)
        match source:
            case Generator(values=values):
                yield from values
            case Sequence(is_iterator=True):
                while source.items:
                    yield source.items.pop(0)
            case Sequence():
                yield from list(source.items)
            case Mapping():
                yield from keys_of(source)
            case Tensor():
                yield from self._rows(source)
            case Instance():
                yield from self._items_of_object(source)
            case _:
                pass

    def _rows(self, source: Tensor) -> Iterator[Value]:
        operators = self._evaluator.operators
        if source.array is not None:  # its rows are used later, unseen
            machine = self._evaluator.machine
            machine.touch_host("Tensor.numpy()", [(source, False)], source.array, escape=True)
        yield from (operators.alias(source, operators.part_of(source, Constant(row))) for row in range(3))

    def _items_of_object(self, source: Instance) -> Iterator[Value]:
        begin = source.kind.find("__iter__")
        if not isinstance(begin, Function):
            return
        here = self._evaluator.machine.current_node  # the loop
        iterator = self._evaluator.call_function(begin, Call(_place(begin, here), [source]))
        if not isinstance(iterator, Instance):
            yield from self.items(iterator)
            return
        step = iterator.kind.find("__next__")
        for _ in range(FULL_LENGTH if isinstance(step, Function) else 0):
            assert isinstance(step, Function)  # otherwise the range is empty
            yield self._evaluator.call_function(step, Call(_place(step, here), [iterator]))

    def iterations(self, source: Value, most: int = 0) -> Iterator[Value]:
        """See `Evaluator`."""
        most = most or (
            MAX_ITERATIONS if isinstance(source, Sequence) and len(source.items) > FULL_LENGTH else FULL_LENGTH
        )
        is_known = isinstance(source, Generator | Tensor) or (
            isinstance(source, Sequence | Mapping) and not source.is_open
        )
        is_known |= isinstance(source, Instance) and isinstance(source.kind.find("__iter__"), Function)
        done, n_clocks, machine = 0, 0, self._evaluator.machine
        items = self.items(source)
        while done < most + self._starts_clock(done - most, n_clocks):
            before = machine.recent.n_clocks
            try:
                yield next(items)
            except (StopIteration, Raised):
                break
            n_clocks = before
            self._count()
            done += 1
        if done >= most:
            self._leave_out(source, done)
            return
        most = 0 if is_known else machine.sites.n_iterations(machine.function)
        while done < most + self._starts_clock(done - most, n_clocks):
            n_clocks = machine.recent.n_clocks
            yield self._elements.of(source, done) if has_identity(source) else derived(source)
            done += 1

    def _starts_clock(self, n_more: int, n_clocks: int) -> bool:
        """Return whether the last iteration was the first to read a clock, so that the next one is measured, too.

        Args:
            n_more: the number of iterations beyond those that are interpreted otherwise.
            n_clocks: the number of places that had read a clock before the latest iteration.
        """
        return not n_more and self._evaluator.machine.recent.n_clocks > n_clocks

    def _leave_out(self, source: Value, done: int) -> None:
        """Take the iterations of a loop into account that are not interpreted.

        They treat the handles of collectives like the others. An object ends the loop in a call of `__next__` that
        raises `StopIteration`, and may wait in it.
        """
        if isinstance(source, Sequence) and not source.is_iterator:
            self._evaluator.collectives.escape_all(source.items[done:])
        elif isinstance(source, Instance):
            self._evaluator.escape(source)

    def _count(self) -> None:
        """Count an iteration in another file, whose constants may be long lists, as a step."""
        evaluator = self._evaluator
        if evaluator.machine.imported.running is not None:
            evaluator.steps_left -= 1
            if evaluator.steps_left < 0:
                raise TooLongError

    def listed(self, value: Value) -> Sequence:
        """See `Evaluator`."""
        if isinstance(value, Generator):
            return Sequence(list(itertools.islice(value.values, _MAX_LISTED)))
        if isinstance(value, Sequence | Mapping | Tensor | Instance):
            items = list(self.items(value))
            return Sequence(items, is_open=isinstance(value, Sequence | Mapping) and value.is_open)
        return Sequence([], is_open=True)


def _place(method: Function, loop: ast.AST) -> ast.AST:
    """Return the node to which the work of a method is attributed: the loop, if the method is in another file."""
    return loop if method.scope.module.is_imported else method.node
