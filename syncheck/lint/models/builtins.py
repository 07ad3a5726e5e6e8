"""Built-in functions, and similar functions of the standard library."""

import ast
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from syncheck.lint.interp.arithmetic import Growing
from syncheck.lint.interp.contents import held_by, is_key, tensors_in
from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.identities import ITERATOR, is_unknown
from syncheck.lint.interp.iteration import FULL_LENGTH, has_full_length
from syncheck.lint.interp.registry import models
from syncheck.lint.interp.unknown import may_be_read
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Call,
    Constant,
    Event,
    Generator,
    Instance,
    Key,
    Mapping,
    Query,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
)

_TYPES = frozenset({"torch.Tensor", "builtins.dict", "builtins.list", "builtins.tuple"})
_MAX_NUMBERS = 64
_MAX_ZIPPED = 16


@models(
    "builtins.print", "builtins.str", "builtins.repr", "builtins.float", "builtins.bool", "math.isfinite", "math.isnan",
    "math.isinf",
)  # fmt: skip
def _host_reads(evaluator: Evaluator, call: Call) -> Value:
    for value in call.values():
        evaluator.operators.read_all_by_host(tensors_in(value), call.node)
    may_be_result = evaluator.machine.recent.is_of_unknown and any(map(is_unknown, call.values()))
    if may_be_result or any(map(may_be_read, call.values())):
        evaluator.machine.read_unknown()
    return UNKNOWN


@models("builtins.int")
def _int(evaluator: Evaluator, call: Call) -> Value:
    _host_reads(evaluator, call)
    first = _first(call)
    return first if isinstance(first, Constant) and isinstance(first.value, int) else UNKNOWN


@models("builtins.list", "builtins.tuple", "builtins.set")
def _list(evaluator: Evaluator, call: Call) -> Value:
    return evaluator.listed(call.args[0]) if call.args else Sequence([])


@models("collections.deque")
def _deque(evaluator: Evaluator, call: Call) -> Value:
    made = evaluator.listed(call.args[0]) if call.args else Sequence([])
    match call.get("maxlen", 1) or NONE:
        case Constant(value=None):
            made.limit = 0
        case Constant(value=int() as limit) if limit:
            made.limit = limit
        case _:
            made.limit = -1
    return made


@models("builtins.isinstance")
def _isinstance(_evaluator: Evaluator, call: Call) -> Value:
    """Tell tensors from containers, where both are certain. The types of other objects are unknown."""
    first, second = call.get("obj", 0) or UNKNOWN, call.get("class_or_tuple", 1) or UNKNOWN
    wanted = held_by(second) or [second]
    paths = {item.path for item in wanted if isinstance(item, Symbol)}
    if len(paths) < len(wanted) or not paths <= _TYPES:
        return UNKNOWN
    match first:
        case Tensor(is_single=True):
            return Constant("torch.Tensor" in paths)
        case Sequence() if paths <= {"torch.Tensor", "builtins.dict"}:  # a set, an iterator or a list of layers, too
            return Constant(False)
        case Mapping() if paths <= {"torch.Tensor", "builtins.list", "builtins.tuple"}:
            return Constant(False)
        case Constant() | Stream() | Event():
            return Constant(False)
        case _:
            return UNKNOWN


@models("builtins.sorted")
def _sorted(evaluator: Evaluator, call: Call) -> Value:
    """Return a list with the same items, in the same order: how they are sorted is unknown."""
    if not call.args:
        return UNKNOWN
    found = evaluator.listed(call.args[0])
    if "key" not in call.kwargs:  # the items themselves are compared
        evaluator.operators.read_all_by_host(found.items, call.node)
    return found


@models("builtins.memoryview")
def _memoryview(_evaluator: Evaluator, call: Call) -> Value:
    return _first(call) or UNKNOWN


@models("builtins.iter")
def _iter(evaluator: Evaluator, call: Call) -> Value:
    first = _first(call)
    if isinstance(first, Sequence) and not first.is_open:
        return first if first.is_iterator else Sequence(list(first.items), is_iterator=True)
    return Generator(evaluator.items(first)) if isinstance(first, Generator | Instance) else ITERATOR


@models("builtins.zip")
def _zip(evaluator: Evaluator, call: Call) -> Value:
    return Generator(_zipped([evaluator.iterations(value, _MAX_ZIPPED) for value in call.args]))


@models("builtins.enumerate")
def _enumerate(evaluator: Evaluator, call: Call) -> Value:
    if not call.args:
        return UNKNOWN
    numbers = iter(_counted(itertools.count(), is_long=not has_full_length(call.args[0])))
    return Generator(_zipped([numbers, evaluator.iterations(call.args[0], _MAX_ZIPPED)]))


@models("itertools.cycle")
def _cycle(evaluator: Evaluator, call: Call) -> Value:
    items = evaluator.listed(call.args[0]) if call.args else Sequence([], is_open=True)
    return Generator(itertools.cycle(items.items)) if items.items and not items.is_open else UNKNOWN


@models("builtins.sum")
def _sum(evaluator: Evaluator, call: Call) -> Value:
    total: Value = UNKNOWN
    for item in evaluator.iterations(_first(call)):
        inputs = [value for value in (total, item) if isinstance(value, Tensor)]
        if inputs:
            total = evaluator.operators.run("aten::add", inputs, call)
        del item
    return total


@models("builtins.map")
def _map(evaluator: Evaluator, call: Call) -> Value:
    if len(call.args) != 2:
        return UNKNOWN
    function, source = call.args
    return Generator(evaluator.call(function, Call(call.node, [item])) for item in evaluator.iterations(source))


@models("torch.utils._pytree.tree_map", "torch.utils._pytree.tree_map_", "optree.tree_map")
def _map_tree(evaluator: Evaluator, call: Call) -> Value | None:
    """Call a function with each leaf of a nested structure, and return a structure of the results."""
    function, tree = call.get("func", 0), call.get("tree", 1)
    if function is None or tree is None or len(call.args) > 2:
        return None

    def mapped(value: Value) -> Value:
        match value:
            case Sequence(items=items):
                return Sequence([mapped(item) for item in items], is_open=value.is_open)
            case Mapping(items=items):
                return Mapping({key: mapped(item) for key, item in items.items()}, is_open=value.is_open)
            case _:
                return evaluator.call(function, Call(call.node, [value]))

    return mapped(tree)


@models("builtins.any", "builtins.all")
def _all_items(evaluator: Evaluator, call: Call) -> Value:
    """Test the items. `all(event.query() for event in events)` is a query, too."""
    result: Value = UNKNOWN
    for item in evaluator.iterations(_first(call)):
        if isinstance(item, Tensor):
            evaluator.operators.read_by_host(item, call.node)
        if isinstance(item, Query):
            result = item
    return result


@models("builtins.getattr")
def _getattr(evaluator: Evaluator, call: Call) -> Value:
    if len(call.args) < 2:
        return UNKNOWN
    name = call.args[1]
    if isinstance(name, Constant) and isinstance(call.args[0], Instance | Symbol):
        return evaluator.attribute(call.args[0], str(name.value), call.node)
    if isinstance(call.args[0], Symbol) and call.args[0].path == "torch" and _mentions_device(call.node):
        return Symbol("torch.cuda")  # the module of a device type
    return UNKNOWN


def _mentions_device(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and "device" in ast.unparse(node.args[1]).lower()


@models("builtins.setattr")
def _setattr(evaluator: Evaluator, call: Call) -> Value:
    match call.args:
        case [Instance(attributes=attributes), Constant(value=str(name)), value]:
            attributes[name] = value
        case [_, _, value]:
            evaluator.machine.sites.premises.keep(tensors_in(value))
            evaluator.escape(value)
        case _:
            pass
    return NONE


@models("builtins.hasattr", "builtins.id", "builtins.type", "builtins.callable")
def _not_known(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return UNKNOWN


@models("queue.Queue", "queue.SimpleQueue")
def _queue(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Sequence([])


@models("builtins.dict")
def _dict(evaluator: Evaluator, call: Call) -> Value:
    made = Mapping(dict(call.kwargs), is_open=bool(call.args))
    for given in call.args:
        if isinstance(given, Mapping):
            made.items |= given.items
            continue
        pairs = evaluator.listed(given)
        if evaluator.collectives.have_started:
            evaluator.escape(pairs)
        for pair in pairs.items:
            match pair:
                case Sequence(items=[Constant(value=key), value]) if is_key(key):
                    made.items[key] = value
                case Sequence(items=[_, value]):
                    made.items[Key("", (len(made.items),))] = value
                case _:
                    pass
    return made


@models("collections.OrderedDict")
def _ordered_dict(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Mapping({})


@models("collections.defaultdict")
def _default_dict(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Mapping({}, is_open=True)


@models("itertools.count")
def _count(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Generator(_counted(itertools.count(), is_long=True))


@models("builtins.len")
def _len(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    first = _first(call)
    return Constant(len(first.items)) if isinstance(first, Sequence | Mapping) and not first.is_open else UNKNOWN


@models("builtins.range")
def _range(evaluator: Evaluator, call: Call) -> Value:
    evaluator.operators.read_all_by_host(call.args, call.node)
    values = [value.value if isinstance(value, Constant) else None for value in call.args]
    known = _begin_of_open_range(values)
    if known is not None:
        start, step = known
        n_iterations = evaluator.machine.sites.n_iterations(evaluator.machine.function)
        return Sequence([Constant(Growing(start + step * number)) for number in range(n_iterations)], is_open=True)
    if not values or any(not isinstance(value, int) for value in values):
        return Sequence([], is_open=True)
    try:
        numbers = range(*values)[:_MAX_NUMBERS]  # type: ignore[arg-type]  # integers
    except (TypeError, ValueError, OverflowError):  # the call raises an error
        return UNKNOWN
    return Sequence(list(_counted(numbers, is_long=len(numbers) > FULL_LENGTH)))


def _counted(numbers: Iterable[int], *, is_long: bool) -> Iterator[Value]:
    """Yield the numbers of the iterations of a loop; `is_long`: whether only some of its iterations are interpreted."""
    return (Constant(Growing(number) if is_long else number) for number in numbers)


def _begin_of_open_range(values: list[Any]) -> tuple[int, int] | None:
    """Return the start and the step of a range of which only the end is unknown; None for any other range."""
    match values:
        case [None]:
            return 0, 1
        case [int(start), None]:
            return start, 1
        case [int(start), None, int(step)] if step > 0:
            return start, step
        case _:
            return None


@models("builtins.reversed")
def _reversed(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    first = _first(call)
    return Sequence(first.items[::-1]) if isinstance(first, Sequence) and not first.is_open else UNKNOWN


@models("builtins.next")
def _next(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
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


def _first(call: Call) -> Value:
    return call.args[0] if call.args else UNKNOWN


def _zipped(sources: list[Iterator[Value]]) -> Iterator[Value]:
    while sources:
        items = [next(source, None) for source in sources]
        if any(item is None for item in items):
            return
        yield Sequence([item for item in items if item is not None])
        del items
