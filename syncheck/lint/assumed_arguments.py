"""Arguments of a function that is interpreted on its own: only what its own source shows about them."""

import ast

from syncheck.lint import strict
from syncheck.lint.file_calls import argument_of, calls_by_name, unpacks
from syncheck.lint.gpu_parameters import moved_parameters
from syncheck.lint.interp.exchanged import passed_on
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import MOVED, Constant, Device, Function, Symbol, Tensor, Value
from syncheck.lint.nodes import (
    Method,
    classes_of_methods,
    entered_streams,
    methods_of,
    once,
    own_attribute,
    parameters,
    walk,
)
from syncheck.lint.parameters import assumed_tensor, tensors_given
from syncheck.lint.prefilter import CLOCKS, STREAM_BLOCK, reads_clock, words_in

_ASYNCHRONOUS = frozenset({"isend", "irecv", "batch_isend_irecv", "async_op"})


def assumed_arguments(machine: Machine, function: Function) -> dict[str, Value]:
    """Return the known arguments of a function, by parameter name.

    A device or a clock has its default value, and a flag the value that all calls in the file give it. Timing events
    are those that the function records itself. If it reads a clock, what all calls move to a GPU is there. A tensor is
    assumed to be on a GPU if the function uses streams or asynchronous collectives, which order nothing on the host;
    the caller's work on it is complete.
    """
    made = {name: value for name, value in function.defaults.items() if _is_gpu(value) or _is_clock(value)}
    made |= _flags(machine.sites.tree, function) | _timing_events(machine, function)
    if machine.sites.may_use_gpu and reads_clock(function.node, frozenset()):  # fast, and most functions read none
        made |= dict.fromkeys(moved_parameters(function.node, machine.sites.tree, machine.sites.text), MOVED)
    strictly = strict.assumed_arguments(machine, function)
    if strictly:
        return made | strictly
    node, sites = function.node, machine.sites
    passed = passed_on(node, sites.tree) if isinstance(node, Method) and sites.has_asynchronous_collectives else set()
    if not passed and not _uses_side_stream(node, machine):
        return made
    given = passed | {argument.arg for argument in tensors_given(node)}
    for argument in (argument for argument in parameters(node) if argument.arg in given):
        tensor = assumed_tensor(machine, argument)
        tensor.is_argument = True
        machine.launch(tensor.stream, "the caller's work", [(tensor, True)], argument)
        made[argument.arg] = tensor
    machine.assume_synchronized()
    return made


def has_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function has default arguments, so that a call may show only part of its behavior."""
    return bool(function.args.defaults) or any(function.args.kw_defaults)


def has_self_parameter(member: Function) -> bool:
    """Return whether a function in a class is a method. One without `self` is a helper used in the class body."""
    arguments = member.node.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    return not member.is_static and bool(first) and first[0].arg in {"self", "cls", "_self", "this"}


def reuse_memory(machine: Machine, function: ast.AST) -> None:
    """Let the caller of a function reuse memory that the function has freed, on the caller's current stream."""
    if _has_side_stream(function):
        tensor = Tensor(machine.allocate(machine.device, function))
        machine.launch(machine.current(machine.device), "the caller's work", [(tensor, True)], function)


def _is_gpu(value: Value) -> bool:
    """Return whether a default argument names a GPU."""
    if isinstance(value, Constant):
        return isinstance(value.value, str) and value.value.partition(":")[0] == "cuda"
    return isinstance(value, Device) and value.index is not None


def _is_clock(value: Value) -> bool:
    """Return whether a default argument is a clock: `clock=time.perf_counter`."""
    return isinstance(value, Symbol) and value.path.rpartition(".")[2] in CLOCKS


def _timing_events(machine: Machine, function: Function) -> dict[str, Value]:
    """Return a new event for each of two parameters that a function records and computes the time between."""
    if "elapsed_time" not in words_in(function.node):
        return {}
    used: dict[str, set[str]] = {"record": set(), "elapsed_time": set()}
    for node in own_nodes(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="record")):
                used["record"].add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=start), attr="elapsed_time"), args=[ast.Name(id=end)]):
                used["elapsed_time"] |= {start, end}
            case _:
                pass
    found: dict[str, Value] = {}
    for argument in parameters(function.node):
        if all(argument.arg in names for names in used.values()):
            event = machine.new_event(argument, timing=True)
            event.has_timing, event.made = True, machine.site(argument)
            found[argument.arg] = event
    return found


def _flags(tree: ast.Module, function: Function) -> dict[str, Value]:
    """Return the flags of a private function that have the same value in all its calls in the file: `wait=True`.

    Other files may call a public function with another value. `async_op` is there for them if no call here passes it.
    """
    if not getattr(function.node, "name", "").startswith("_"):
        return {}
    defaults = {name: value.value for name, value in function.defaults.items() if isinstance(value, Constant)}
    flags = {name: default for name, default in defaults.items() if isinstance(default, bool)}
    calls = calls_by_name(tree).get(getattr(function.node, "name", ""), []) if flags else []
    arguments = function.node.args
    positions = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    n_bound = int(has_self_parameter(function))
    found: dict[str, Value] = {}
    for name, default in flags.items() if calls else ():
        index = positions.index(name) - n_bound if name in positions else None
        values = {_given(call, name, index, default=default) for call in calls}
        is_for_others = name == "async_op" and all(argument_of(call, name, index) is None for call in calls)
        if len(values) == 1 and None not in values and not is_for_others:
            found[name] = Constant(values.pop())
    return found


def _given(call: ast.Call, name: str, index: int | None, *, default: bool) -> bool | None:
    """Return the flag that a call passes by name or at a position, or its default; None if it is unknown."""
    given = argument_of(call, name, index)
    if given is None:
        return None if unpacks(call) else default
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, bool) else None


def _uses_side_stream(function: ast.AST, machine: Machine) -> bool:
    """Return whether a function makes another stream current, or calls a method that enters a stream of its object.

    A function that leaves a collective running counts, too. Which of several streams a method enters may be unknown.
    """
    if _has_side_stream(function):
        return True
    kind = classes_of_methods(machine.sites.tree).get(function) if "stream(" in machine.sites.text else None
    called = {own_attribute(node.func) for node in walk(function) if isinstance(node, ast.Call)} if kind else ()
    return kind is not None and any(_enters_own(each) for name, each in methods_of(kind).items() if name in called)


@once
def _enters_own(method: ast.AST) -> bool:
    """Return whether a method enters a stream that is an attribute of its object."""
    blocks = (node for node in walk(method) if isinstance(node, ast.With)) if _has_side_stream(method) else ()
    return any(own_attribute(stream) for block in blocks for stream in entered_streams(block))


@once
def _has_side_stream(function: ast.AST) -> bool:
    """Return whether a function makes another stream current, or leaves a collective running."""
    words = words_in(function)
    if STREAM_BLOCK not in words and words.isdisjoint(_ASYNCHRONOUS):
        return False
    for node in walk(function):
        if isinstance(node, ast.With) and entered_streams(node):
            return True
    return any(_name(node) in _ASYNCHRONOUS for node in own_nodes(function))


def _name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.keyword(arg=str(name), value=value):
            return "" if isinstance(value, ast.Constant) and not value.value else name
        case _:
            return ""
