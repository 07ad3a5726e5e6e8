"""Threads that wait for their own current stream before they read copies that another stream makes (SYN301).

The current stream belongs to a thread, and a new thread begins with the default stream. So a wait for it says nothing
about copies that the main thread has started on a stream of the object.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import (
    Method,
    classes_in,
    current_streams,
    entered_streams,
    is_current_stream,
    is_non_blocking,
    is_on_stream,
    methods_of,
    own_attribute,
    text,
    walk,
)
from syncheck.lint.patterns.context import Context
from syncheck.rules import host_read_in_flight
from syncheck.source.expressions import last_name

_READING = frozenset({"save", "numpy", "tolist", "tobytes", "dump"})
_OF_HOST = "pin_memory"
_WAIT = "this waits for the current stream of the thread, which is the default stream"
_HELP = "wait for an event after the copies, or for `{stream}`, instead of the current stream of this thread"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return all(word in source for word in ("Thread(", "non_blocking", "current_stream(", ".synchronize()", _OF_HOST))


def findings(context: Context) -> Iterator[Finding]:
    """Yield the reads of threads after such a wait, as warnings."""
    lines = lines_of(context.known)
    for kind in classes_in(context.tree):
        methods = methods_of(kind)
        in_thread = _run_in_threads(kind, methods)
        stream = _copying_stream(step for name, step in methods.items() if name not in in_thread)
        if not stream or any(_orders(step, stream) for step in in_thread.values()):
            continue
        for step in in_thread.values():
            wait, read = _wait_and_read(step)
            if wait is not None and read is not None and read.lineno not in lines:
                facts = {"tensor": "what the thread gets", "stream": f"stream `{stream}`"}
                advice = _HELP.format(stream=stream)
                found = context.sites.warning(host_read_in_flight.RULE, read, step.name, advice, **facts)
                related = context.sites.related(wait, step.name, _WAIT)
                yield replace(found, related=(related,))


def _run_in_threads(kind: ast.ClassDef, methods: Mapping[str, Method]) -> dict[str, Method]:
    """Return the methods that a class runs in threads, and those that they call."""
    calls = (node for node in walk(kind) if isinstance(node, ast.Call) and last_name(node.func) == "Thread")
    targets = (word.value for call in calls for word in call.keywords if word.arg == "target")
    waiting = [name for target in targets if (name := own_attribute(target)) in methods]
    found: dict[str, Method] = {}
    for name in waiting:  # the list grows during iteration
        if name not in found:
            found[name] = methods[name]
            called = (own_attribute(node.func) for node in own_nodes(methods[name]) if isinstance(node, ast.Call))
            waiting += [other for other in called if other in methods]
    return found


def _copying_stream(methods: Iterator[Method]) -> str:
    """Return the stream of an object on which a block starts copies to pinned memory; "" if there is none."""
    for method in methods:
        for block in (node for node in own_nodes(method) if isinstance(node, ast.With)):
            streams = [text(stream) for stream in entered_streams(block) if own_attribute(stream)]
            calls = (node for node in walk(block) if isinstance(node, ast.Call))
            if streams and any(last_name(call.func) == "copy_" and is_non_blocking(call) for call in calls):
                return streams[0]
    return ""


def _orders(method: Method, stream: str) -> bool:
    """Return whether a method makes another stream current, or waits for anything but its current stream."""
    current = current_streams(own_nodes(method))
    for node in own_nodes(method):
        if isinstance(node, ast.With) and is_on_stream(node):
            return True
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, name = node.func.value, node.func.attr
        is_current = is_current_stream(owner) or text(owner) in current
        if name in {"set_stream", "wait_stream", "wait_event", "query"} or text(owner) == stream:
            return True
        if name in {"synchronize", "wait"} and not is_current and "queue" not in text(owner):
            return True
    return False


def _wait_and_read(method: Method) -> tuple[ast.Call | None, ast.Call | None]:
    """Return the wait of a method for its current stream, and the first read on the host after it."""
    nodes = own_nodes(method)
    current = current_streams(nodes)
    calls = sorted((node for node in nodes if isinstance(node, ast.Call)), key=lambda call: call.lineno)
    wait = None
    for call in calls:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if last_name(call.func) == "synchronize" and (is_current_stream(owner) or text(owner) in current):
            wait = call
        elif wait is not None and last_name(call.func) in _READING:
            return wait, call
    return wait, None
