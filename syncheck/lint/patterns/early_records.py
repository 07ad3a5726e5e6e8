"""Events that stand for the work of a stream, but are recorded before the function submits that work (SYN105)."""

import ast

from syncheck.lint.nodes import Method, entered_stream, names, owner_of_call, text, walk
from syncheck.source.expressions import arguments_of, last_name

_WAITS = frozenset({"wait", "wait_event", "synchronize", "query", "elapsed_time"})
_KEEPING = frozenset({"append", "appendleft", "put", "put_nowait", "add"})


def early_record(function: Method, event: str, made: ast.Call) -> tuple[ast.Call, ast.AST] | None:
    """Return where an event is recorded too early, and the work that it should follow; None if it is not.

    The event is kept for a later wait, and the function itself does not wait for it. The work is a block after the
    record, or the rest of the block that begins with the record. Both are statements of the function's body, so that
    they always run. Nothing before them uses the stream, so the event stands for no other work of the function.

    Args:
        function: the function.
        event: the variable of the event, which is bound once.
        made: the call that creates it.
    """
    nodes = walk(function)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if not _is_kept(nodes, event) or any(_waits(call, event) or _is_wait_for_earlier(call) for call in calls):
        return None
    blocks = [node for node in function.body if isinstance(node, ast.With) and _entered(node)]
    for block in blocks:
        begin, entered, work = _begin_with_record(block, event)
        if begin is not None and work is not None and not _is_used_before(nodes, entered, block.lineno):
            return begin, work
    records = [(call, text(on)) for call in calls if (on := _recorded_on(call, event, made)) is not None]
    if len(records) != 1:
        return None
    record, stream = records[0]
    outer = [statement for statement in function.body if isinstance(statement, ast.Expr | ast.Assign)]
    if not any(statement.value is record for statement in outer) or _is_used_before(nodes, stream, record.lineno):
        return None
    after = [block for block in blocks if stream in _entered(block) and block.lineno > record.lineno]
    return next(((record, block.items[0]) for block in after if _works(block.body)), None)


def _begin_with_record(block: ast.With, event: str) -> tuple[ast.Call | None, str, ast.stmt | None]:
    """Return the record of an event that a block begins with, its stream, and the work after it, if there is any."""
    match block.body:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="record")) as record), *rest]:
            streams = _entered(block)
            given = {text(argument) for argument in record.args} or streams
            if name == event and given <= streams and not record.keywords and _works(rest):
                return record, min(given), rest[0]
        case _:
            pass
    return None, "", None


def _is_used_before(nodes: list[ast.AST], stream: str, line: int) -> bool:
    """Return whether a stream is current, or passed to a call, before a line."""
    for node in nodes:
        if getattr(node, "lineno", line) >= line:
            continue
        match node:
            case ast.With() if stream in _entered(node):
                return True
            case ast.Call(args=args) if stream in map(text, args):
                return True
            case ast.Assign(value=value) if stream in map(text, node.targets):
                if any("current_stream" in text(part) or "default_stream" in text(part) for part in walk(value)):
                    return True
            case _:
                pass
    return False


def _recorded_on(call: ast.Call, event: str, made: ast.Call) -> ast.expr | None:
    """Return the stream that a call records the event on, if it is named."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if call is made and call.func.attr == "record_event":
        return call.func.value
    if call.func.attr == "record" and text(call.func.value) == event:
        given = arguments_of(call)
        return given[0] if given else None
    return None


def _is_wait_for_earlier(call: ast.Call) -> bool:
    """Return whether the host waits for an event that an earlier call kept: `events.popleft().synchronize()`."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="pop" | "popleft" | "get")), attr="synchronize"):
            return True
        case _:
            return False


def _waits(call: ast.Call, event: str) -> bool:
    """Return whether a call waits for the event, or tests it."""
    owner = owner_of_call(call)
    return last_name(call.func) in _WAITS and (owner == event or event in map(text, call.args))


def _is_kept(nodes: list[ast.AST], event: str) -> bool:
    """Return whether the event is assigned to an attribute or an item, put into a container, or returned."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=ast.Name(id=name)) if name == event:
                if any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
                    return True
            case ast.Return(value=value) if value is not None and event in names(value):
                return True
            case ast.Call(func=func, args=args) if last_name(func) in _KEEPING:
                if any(event in names(part) for part in args):
                    return True
            case _:
                pass
    return False


def _entered(block: ast.With) -> set[str]:
    streams = (entered_stream(item.context_expr) for item in block.items)
    return {text(stream) for stream in streams if stream is not None}


def _works(statements: list[ast.stmt]) -> bool:
    """Return whether some statements call anything but waits."""
    calls = [node for statement in statements for node in walk(statement) if isinstance(node, ast.Call)]
    return any(last_name(call.func) not in _WAITS | {"wait_stream"} for call in calls)
