"""Model of a function's callers that are not in the file: how they use its results."""

import ast
import contextlib
from collections.abc import Iterable

from syncheck.hb.ids import NamedKind, SiteId, StreamId
from syncheck.lint.handovers import code_for, exit_of
from syncheck.lint.interp.contents import handles_in, open_containers, tensors_in
from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import Call, Function, Generator, Instance, Mapping, Sequence, Stream, Tensor, Value
from syncheck.lint.nodes import Method, methods_of, names, parameters, stored_names, walk
from syncheck.lint.prefilter import words_in
from syncheck.source.expressions import last_name

_WAITING = frozenset({"synchronize", "wait"})
_LISTING = frozenset("iter zip tuple list vars getattr fields astuple asdict values items keys".split())
"""Functions and methods that list what an object has."""
_NO_WAIT = "the caller does not wait for its work on what it gets"


def consume(interpreter: Interpreter, result: Value, function: ast.AST, before: int = 0) -> None:
    """Use a function's result as a loop over batches does: on the current stream, and no longer than needed.

    Args:
        interpreter: the interpreter that called the function.
        result: the result.
        function: the function. The caller's use of what is older than the call is attributed to its first statement.
        before: an id that the machine gave out before the call; 0 if unknown.
    """
    name = getattr(function, "name", "")
    if isinstance(result, Instance) and _is_record(result):
        interpreter.escape(result)
        return
    if isinstance(result, Instance) and not isinstance(result.kind.find("__iter__"), Function):
        _call_waiting_methods(interpreter, result, function)
    if (
        not isinstance(result, Generator | Instance)
        and name not in {"__next__", "next"}
        and not _returns_awaited_tensors(interpreter.machine, result)
    ):
        interpreter.escape(result)
        return
    if not isinstance(result, Generator | Instance):
        _use(interpreter, result, function, name, before)
        return
    step = result.kind.find("__next__") if isinstance(result, Instance) else None
    before = interpreter.machine.next_ident()
    is_context = any(last_name(each).endswith("contextmanager") for each in getattr(function, "decorator_list", ()))
    for item in interpreter.iterations(result):
        used_at = step.node if isinstance(step, Function) else interpreter.machine.current_node
        if not is_context or _are_of_other_streams(interpreter.machine, item):
            _use(interpreter, item, used_at, name, before)
        interpreter.escape(Sequence([tensor for tensor in tensors_in(item) if tensor.array is not None]))
        del item
        before = interpreter.machine.next_ident()
    for work in handles_in(result):
        interpreter.escape(work)


def _is_record(made: Instance) -> bool:
    """Return whether an object is iterated over for its attributes rather than for batches that it loads."""
    begin = made.kind.find("__iter__")
    if not isinstance(begin, Function) or made.kind.find("__next__") is not None:
        return False
    nodes = walk(begin.node)
    bound = stored_names(nodes)
    calls = (node for node in nodes if isinstance(node, ast.Call))
    body = begin.node.body if isinstance(begin.node, Method) else []
    used = {name for step in body for name in names(step)}
    return used <= {"self", *bound, *_LISTING} and all(last_name(call.func) in _LISTING for call in calls)


def _call_waiting_methods(interpreter: Interpreter, made: Instance, node: ast.AST) -> None:
    """Call the methods of a returned object that wait for something: those with which the caller gets the results."""
    for method in methods_of(made.kind.node).values():
        member = made.kind.find(method.name)
        is_public = not method.name.startswith("_") and not method.decorator_list and len(parameters(method)) == 1
        if is_public and isinstance(member, Function) and not _WAITING.isdisjoint(words_in(method)):
            with contextlib.suppress(Raised):
                interpreter.escape(interpreter.call_function(member, Call(node, [made])))


def _returns_awaited_tensors(machine: Machine, result: Value) -> bool:
    """Return whether a function returns tensors of side streams that the current stream has waited for, to use them."""
    made = [tensor for tensor in tensors_in(result) if tensor.block.device is not None and tensor.stream]
    current = {tensor.block.device: machine.current(tensor.block.device or 0) for tensor in made}
    others = [tensor for tensor in made if tensor.stream != current[tensor.block.device]]
    return bool(others) and all(machine.joins.cover(tensor, current[tensor.block.device]) for tensor in others)


def _are_of_other_streams(machine: Machine, value: Value) -> bool:
    """Return whether tensors come from other streams. The block of a context may leave others alone."""
    made = [tensor for tensor in tensors_in(value) if tensor.block.device is not None]
    return bool(made) and all(tensor.stream != machine.current(tensor.block.device or 0) for tensor in made)


class PassedOnTensor:
    """A tensor that a method returns while the current stream still works on it, and that its caller may pass on.

    The caller may pass it on immediately, whichever methods are interpreted in between here.
    """

    def __init__(self) -> None:
        self._maker: ast.AST | None = None
        self._device = 0

    def note(self, machine: Machine, result: Value, maker: ast.AST) -> None:
        """Record the result of a method."""
        if not isinstance(result, Tensor) or result.block.escaped:
            return
        device = result.block.device
        if device is None:
            return
        stream = machine.current(device)
        if result.stream == stream and machine.session.is_pending(NamedKind.STREAM, stream):
            self._maker, self._device = maker, device

    def among(self, machine: Machine, known: dict[str, Value], method: ast.AST) -> dict[str, Value]:
        """Return the known arguments of another method, with such a tensor in place of the first tensor among them."""
        first = next((name for name, value in known.items() if isinstance(value, Tensor)), None)
        if first is None or self._maker is None or self._maker is method:
            return dict(known)
        before, machine.function = machine.function, getattr(self._maker, "name", "")
        stream = machine.current(self._device)
        made = Tensor(machine.allocate(self._device, self._maker), stream=stream)
        machine.launch(stream, "another method", [(made, True)], self._maker)
        machine.function = before
        return known | {first: made}


class PassedOnObjects:
    """Objects that one method of a class returns and another one takes, such as the slots of a pool.

    Args:
        known: the arguments of each method.
    """

    def __init__(self, known: Iterable[dict[str, Value]]) -> None:
        given = (value for arguments in known for value in arguments.values())
        self._taken = {value.kind.node for value in given if isinstance(value, Instance)}
        self._latest: dict[ast.ClassDef, Instance] = {}

    def take(self, result: Value) -> bool:
        """Keep the result of a method for the next method that takes such an object; return whether there is one."""
        if not isinstance(result, Instance) or result.kind.node not in self._taken:
            return False
        open_containers(result)
        self._latest[result.kind.node] = result
        return True

    def among(self, known: dict[str, Value]) -> dict[str, Value]:
        """Return the arguments of a method, with such objects in place of those that are only assumed."""
        kinds = {name: value.kind.node for name, value in known.items() if isinstance(value, Instance)}
        return known | {name: self._latest.pop(kind) for name, kind in kinds.items() if kind in self._latest}


def uses_kept_stream(interpreter: Interpreter) -> bool:
    """Return whether work ran on a stream that outlives a function, as far as this file and its imports show."""
    machine = interpreter.machine
    busy = {stream for stream in machine.computing if machine.handle_of(stream)}
    scopes = [scope for module in interpreter.modules if (scope := module()) is not None]
    scopes = [*scopes, *interpreter.calls.imported.scopes] if busy else []
    return any(stream in busy for scope in scopes for value in scope.names.values() for stream in _streams_in(value))


def _streams_in(value: Value) -> list[StreamId]:
    match value:
        case Stream(ident=ident):
            return [ident]
        case Sequence(items=items):
            return [item.ident for item in items if isinstance(item, Stream)]
        case Mapping(items=items):
            return [item.ident for item in items.values() if isinstance(item, Stream)]
        case _:
            return []


def call_twice(interpreter: Interpreter, function: Function, known: dict[str, Value]) -> set[tuple[str, SiteId]]:
    """Call a function again, as a program does. Return the findings that only both calls show; exclude all others.

    Conflicts over memory that both calls use are left to the callers, which may wait in between.
    """
    machine = interpreter.machine
    known_findings = {(finding.rule.code, finding.site) for finding in machine.findings}
    before = machine.next_ident()
    result = interpreter.call_function(function, Call(function.node, [], dict(known), is_complete=False))
    consume(interpreter, result, function.node, before)
    del result
    after = {(finding.rule.code, finding.site) for finding in machine.findings} - known_findings
    found = {(code, site) for code, site in after if code == "SYN201"}
    machine.imported.leave_out(after - found)
    return found


def may_need_wait(machine: Machine, result: Value) -> bool:
    """Return whether a function's caller may have to wait: for its results, or because the function has findings."""
    current = machine.current(machine.thread.device)
    return bool(machine.findings) or any(tensor.stream not in {current, 0} for tensor in tensors_in(result))


def _use(interpreter: Interpreter, value: Value, node: ast.AST, function: str, before: int) -> None:
    machine = interpreter.machine
    caller, machine.function = machine.function, getattr(node, "name", function)
    handover = _handover(machine, value, node)
    for tensor in tensors_in(value):
        if tensor.block.device is not None:
            used_at = _begin(node) if tensor.block.ident < before else node
            site = machine.site(used_at)
            machine.of_callers["SYN201", site] = _NO_WAIT
            if handover is not None:
                machine.sites.handovers[site] = handover
            machine.launch(machine.current(tensor.block.device), "the caller's work", [(tensor, False)], used_at)
    machine.function = caller


def _handover(machine: Machine, value: Value, function: ast.AST) -> tuple[SiteId, str] | None:
    """Return the statement in which a function returns a value to its caller, and code that records it."""
    end = exit_of(function)
    if end is None or end.value is None:
        return None
    site = machine.site(end)
    machine.of_callers["SYN201", site] = _NO_WAIT
    return site, code_for(end.value, value)


def _begin(node: ast.AST) -> ast.AST:
    """Return the first statement of a function: a wait there covers what earlier calls have loaded, and no more."""
    if not isinstance(node, Method):
        return node
    return next((one for one in node.body if not isinstance(one, ast.Expr) or isinstance(one.value, ast.Call)), node)
