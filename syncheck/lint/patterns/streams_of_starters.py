"""Streams that are current where a thread is started or created, and not in the thread itself (SYN503)."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from syncheck.findings import Finding
from syncheck.lint.interp.functions import block_nodes, functions_with_nodes, own_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    Method,
    classes_of_methods,
    entered_streams,
    functions_in,
    methods_of,
    own_attribute,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import thread_loses_device
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_ENTERING = frozenset({"stream", "StreamContext", "set_stream"})
_POOLS = frozenset({"pool", "executor", "threads", "workers"})
_WORKING = frozenset({"copy_", "to", "cuda", "backward", "step"})
_OF_TORCH = re.compile(
    r"torch\.(?:stack|cat|matmul|mm|bmm|einsum|tanh|relu|sigmoid|softmax|exp|add|mul|where|sum|mean|cumsum)$"
)
"""Operators."""
_HELP = "make `{stream}` current in the thread: `with torch.cuda.stream({stream}):`"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return ("Thread" in source or "xecutor" in source) and ("stream(" in source or "set_stream" in source)


def findings(context: Context) -> Iterator[Finding]:
    """Yield the starts of threads in blocks on streams, and streams set in the constructors of threads."""
    lines = lines_of(context.known)
    functions = {function.name: function for function in functions_in(context.tree)}
    for function, nodes in functions_with_nodes(context.tree):
        kind = classes_of_methods(context.tree).get(function)
        for call, stream in (*_started(nodes, kind, functions), *_set(function, kind)):
            if call.lineno not in lines:
                facts = {"actual": "its default stream", "expected": f"`{stream}`"}
                advice = _HELP.format(stream=stream)
                yield context.sites.warning(thread_loses_device.RULE, call, function.name, advice, **facts)


def _started(
    nodes: Sequence[ast.AST], kind: ast.ClassDef | None, functions: Mapping[str, Method]
) -> Iterator[tuple[ast.Call, str]]:
    """Yield the starts of threads in blocks on a stream, which their targets do not enter, with the stream."""
    blocks = [(node, stream) for node in nodes if isinstance(node, ast.With) for stream in entered_streams(node)]
    targets = dict(_targets([*nodes, *(walk(kind) if kind is not None else ())])) if blocks else {}
    for block, stream in blocks:
        for node in block_nodes(block):
            match node:
                case ast.Call(func=ast.Attribute(value=pool, attr="submit" | "map"), args=[task, *_]):
                    if words_of(last_name(pool)) & _POOLS and _works_elsewhere(task, kind, functions):
                        yield node, text(stream)
                case ast.Call(func=ast.Attribute(value=thread, attr="start"), args=[]):
                    target = _target_of(thread) or targets.get(text(thread))
                    is_alone = len(block.body) == 1  # the block is there for the thread
                    if target is not None and _works_elsewhere(target, kind, functions, may_compute=is_alone):
                        yield node, text(stream)
                case _:
                    pass


def _target_of(made: ast.AST) -> ast.expr | None:
    """Return the target of a call that creates a thread; None for any other expression."""
    if not isinstance(made, ast.Call) or last_name(made.func) != "Thread":
        return None
    return next((word.value for word in made.keywords if word.arg == "target"), None)


def _targets(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables and attributes that are bound to threads, each with its target."""
    for node in nodes:
        if isinstance(node, ast.Assign) and (target := _target_of(node.value)) is not None:
            yield from ((text(name), target) for name in node.targets)


def _works_elsewhere(
    target: ast.expr, kind: ast.ClassDef | None, functions: Mapping[str, Method], *, may_compute: bool = False
) -> bool:
    """Return whether a function works on a GPU, on a stream that it does not choose itself.

    Args:
        target: the function.
        kind: the class that it may be a method of.
        functions: the functions of the file.
        may_compute: whether operators count as work; they may run on the host.
    """
    methods = methods_of(kind) if kind is not None else {}
    first = methods.get(own_attribute(target)) or (functions.get(target.id) if isinstance(target, ast.Name) else None)
    if first is None:
        return False
    calls = [call for step in _reached(first, methods) for call in _calls(step)]
    called = {last_name(call.func) for call in calls}
    works = bool(called & _WORKING) or (may_compute and any(_OF_TORCH.match(text(call.func)) for call in calls))
    return works and not called & _ENTERING


def _reached(first: Method, methods: Mapping[str, Method]) -> list[Method]:
    """Return a function and the methods of its object that it calls, directly or indirectly."""
    found = [first]
    for step in found:  # the list grows during iteration
        called = (methods.get(own_attribute(node.func)) for node in _calls(step))
        found += [other for other in dict.fromkeys(called) if other is not None and other not in found]
    return found


def _calls(function: Method) -> list[ast.Call]:
    return [node for node in own_nodes(function) if isinstance(node, ast.Call)]


def _set(function: Method, kind: ast.ClassDef | None) -> Iterator[tuple[ast.Call, str]]:
    """Yield where the constructor of a thread sets a stream that the thread itself does not set, with the stream."""
    if kind is None or function.name != "__init__" or "Thread" not in map(last_name, kind.bases):
        return
    methods = methods_of(kind)
    run = methods.get("run")
    called = {last_name(node.func) for step in _reached(run, methods) for node in _calls(step)} if run else _ENTERING
    for call in _calls(function):
        if last_name(call.func) == "set_stream" and call.args and not called & _ENTERING and called & _WORKING:
            yield call, text(call.args[0])
