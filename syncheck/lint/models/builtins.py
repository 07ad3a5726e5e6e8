"""Built-in functions, and those of the standard library that are like them."""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Call,
    Constant,
    Generator,
    Instance,
    Mapping,
    Sequence,
    Symbol,
    Tensor,
    Value,
    tensors_in,
)

if TYPE_CHECKING:
    from syncheck.lint.interp.calls import Calls

_MOST_NUMBERS = 64
_MOST_TURNS = 16


class Builtins:
    """Calls built-in functions.

    Attributes:
        functions: by their full names.
    """

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self.functions: dict[str, Callable[[Call], Value | None]] = {
            "builtins.print": self._host_reads,
            "builtins.str": self._host_reads,
            "builtins.repr": self._host_reads,
            "builtins.float": self._host_reads,
            "builtins.int": self._int,
            "builtins.bool": self._host_reads,
            "builtins.len": _len,
            "builtins.range": _range,
            "builtins.list": self._list,
            "builtins.tuple": self._list,
            "builtins.set": self._list,
            "builtins.iter": self._iter,
            "builtins.next": _next,
            "builtins.zip": self._zip,
            "builtins.enumerate": self._enumerate,
            "builtins.reversed": _reversed,
            "builtins.sum": self._sum,
            "builtins.map": self._map,
            "builtins.dict": lambda call: Mapping(dict(call.kwargs), is_open=bool(call.args)),
            "builtins.getattr": self._getattr,
            "builtins.setattr": _setattr,
            "builtins.isinstance": _nobody_knows,
            "builtins.hasattr": _nobody_knows,
            "builtins.id": _nobody_knows,
            "builtins.type": _nobody_knows,
            "builtins.callable": _nobody_knows,
            "builtins.any": self._all_items,
            "builtins.all": self._all_items,
            "itertools.cycle": self._cycle,
            "itertools.count": _count,
            "collections.deque": self._list,
            "collections.defaultdict": _open_table,
            "collections.OrderedDict": _empty_table,
            "queue.Queue": _empty_list,
            "queue.SimpleQueue": _empty_list,
        }

    def _host_reads(self, call: Call) -> Value:
        for value in call.values():
            for tensor in tensors_in(value):
                self._calls.operators.read_by_host(tensor, call.node)
        return UNKNOWN

    def _int(self, call: Call) -> Value:
        self._host_reads(call)
        first = _first(call)
        return first if isinstance(first, Constant) and isinstance(first.value, int) else UNKNOWN

    def _list(self, call: Call) -> Value:
        return self._calls.iteration.listed(call.args[0]) if call.args else Sequence([])

    def _iter(self, call: Call) -> Value:
        first = _first(call)
        if isinstance(first, Sequence) and not first.is_open:
            return first if first.is_iterator else Sequence(list(first.items), is_iterator=True)
        return Generator(self._calls.iteration.items(first)) if isinstance(first, Generator | Instance) else UNKNOWN

    def _zip(self, call: Call) -> Value:
        return Generator(_zipped([self._turns(value) for value in call.args]))

    def _turns(self, value: Value) -> Iterator[Value]:
        return self._calls.iteration.turns(value, _MOST_TURNS)

    def _enumerate(self, call: Call) -> Value:
        numbers = iter(Constant(number) for number in itertools.count())
        return Generator(_zipped([numbers, self._turns(call.args[0])])) if call.args else UNKNOWN

    def _cycle(self, call: Call) -> Value:
        items = self._calls.iteration.listed(call.args[0]) if call.args else Sequence([], is_open=True)
        return Generator(itertools.cycle(items.items)) if items.items and not items.is_open else UNKNOWN

    def _sum(self, call: Call) -> Value:
        total: Value = UNKNOWN
        for item in self._calls.iteration.turns(_first(call)):
            inputs = [value for value in (total, item) if isinstance(value, Tensor)]
            if inputs:
                total = self._calls.operators.run("aten::add", inputs, call)
            del item
        return total

    def _map(self, call: Call) -> Value:
        if len(call.args) != 2:
            return UNKNOWN
        calls = self._calls
        function, source = call.args
        return Generator(calls.call(function, Call(call.node, [item])) for item in calls.iteration.turns(source))

    def _all_items(self, call: Call) -> Value:
        for item in self._calls.iteration.turns(_first(call)):
            if isinstance(item, Tensor):
                self._calls.operators.read_by_host(item, call.node)
        return UNKNOWN

    def _getattr(self, call: Call) -> Value:
        name = call.args[1] if len(call.args) > 1 else UNKNOWN
        if isinstance(name, Constant) and isinstance(call.args[0], Instance | Symbol):
            return self._calls.attribute(call.args[0], str(name.value), call.node)
        return UNKNOWN


def _first(call: Call) -> Value:
    return call.args[0] if call.args else UNKNOWN


def _nobody_knows(call: Call) -> Value:
    del call
    return UNKNOWN


def _empty_list(call: Call) -> Value:
    del call
    return Sequence([])


def _empty_table(call: Call) -> Value:
    del call
    return Mapping({})


def _open_table(call: Call) -> Value:
    del call
    return Mapping({}, is_open=True)


def _count(call: Call) -> Value:
    del call
    return Generator(Constant(number) for number in itertools.count())


def _len(call: Call) -> Value:
    first = _first(call)
    return Constant(len(first.items)) if isinstance(first, Sequence | Mapping) and not first.is_open else UNKNOWN


def _range(call: Call) -> Value:
    values = [value.value if isinstance(value, Constant) else None for value in call.args]
    if not values or any(not isinstance(value, int) for value in values):
        return Sequence([], is_open=True)
    try:
        numbers = range(*values)[:_MOST_NUMBERS]  # type: ignore[arg-type]  # integers
    except (TypeError, ValueError, OverflowError):  # it raises
        return UNKNOWN
    return Sequence([Constant(number) for number in numbers])


def _reversed(call: Call) -> Value:
    first = _first(call)
    return Sequence(first.items[::-1]) if isinstance(first, Sequence) and not first.is_open else UNKNOWN


def _next(call: Call) -> Value:
    source = _first(call)
    default = call.args[1] if len(call.args) > 1 else None
    if isinstance(source, Sequence) and source.is_iterator:
        if source.items:
            return source.items.pop(0)
    elif isinstance(source, Generator):
        found = next(source.values, None)
        if found is not None:
            return found
    else:
        return UNKNOWN
    if default is None:
        raise Raised
    return default


def _zipped(sources: list[Iterator[Value]]) -> Iterator[Value]:
    while sources:
        items = [next(source, None) for source in sources]
        if any(item is None for item in items):
            return
        yield Sequence([item for item in items if item is not None])
        del items


def _setattr(call: Call) -> Value:
    if len(call.args) == 3 and isinstance(call.args[0], Instance) and isinstance(call.args[1], Constant):
        call.args[0].attributes[str(call.args[1].value)] = call.args[2]
    return NONE
