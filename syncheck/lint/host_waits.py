"""Waits of the host that may come before a block of work on a stream of an object.

A wait for the stream itself, or for its events, says nothing about the work of other streams.
"""

import ast

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.nodes import HOST_READS, Method, methods_of, once, own_attribute, text, walk
from syncheck.source.expressions import arguments_of, last_name

_READS = HOST_READS | {"nonzero"}
"""Calls that read a tensor on the host, which then waits for the current stream."""
_OF_STREAMS = frozenset({"wait", "wait_stream", "wait_event"})
"""Waits of a stream."""
_DECORATORS = frozenset(
    """no_grad inference_mode enable_grad staticmethod classmethod property cached_property contextmanager override
    wraps lru_cache cache abstractmethod once_differentiable custom_fwd custom_bwd ignore export unused disable setter
    compile record_function overload final asynccontextmanager""".split()
)
"""Decorators that order no streams."""
_MAX_CALLS = 3
"""Maximum length of a chain of methods that call one another."""


def method_around(kind: ast.ClassDef, block: ast.With) -> Method | None:
    """Return the method that contains a block directly, and not in a nested function; None if there is none.

    A decorator of another file may order the streams around its method, so such a method does not count.
    """
    methods = (step for step in methods_of(kind).values() if block in own_nodes(step))
    return next((step for step in methods if all(map(_is_known, step.decorator_list))), None)


def _is_known(decorator: ast.expr) -> bool:
    """Return whether a decorator is known not to order streams."""
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in _DECORATORS


def may_come_before(kind: ast.ClassDef, block: ast.With, stream: str) -> bool:
    """Return whether the host may wait for other streams in a method before a block, or in its callers before it.

    Args:
        kind: the class.
        block: the block.
        stream: the attribute of `self` with the stream of the block.
    """
    return _may_wait(kind, block, stream, block.lineno)


def may_wait_around(kind: ast.ClassDef, block: ast.With, stream: str) -> bool:
    """Return whether the host may wait for other streams in the method of a block, or in a method that calls it.

    Args:
        kind: the class.
        block: the block.
        stream: the attribute of `self` with the stream of the block.
    """
    return _may_wait(kind, block, stream, kind.end_lineno or block.lineno)


def _may_wait(kind: ast.ClassDef, block: ast.With, stream: str, line: int) -> bool:
    """Return whether the host may wait in the method of a block before a line, or in its callers before it."""
    method = method_around(kind, block)
    return method is None or _Waits(kind, stream).are_before(method, line, _MAX_CALLS)


def waits_for_others(kind: ast.ClassDef, call: ast.Call, stream: str) -> bool:
    """Return whether a call in a class may make the host wait for other streams than one of `self`.

    A value that a called method reads, such as `.item()`, may be one of the host.
    """
    waits = _Waits(kind, stream)
    called = methods_of(kind).get(own_attribute(call.func))
    if called is None:
        return waits.is_wait(call, _MAX_CALLS)
    return any(last_name(inner.func) not in _READS and waits.is_wait(inner, _MAX_CALLS) for inner in _calls(called))


class _Waits:
    """The calls of a class that may make the host wait for other streams than its own.

    Args:
        kind: the class.
        stream: the attribute of `self` with the stream.
    """

    def __init__(self, kind: ast.ClassDef, stream: str) -> None:
        self._methods = methods_of(kind)
        self._stream = f"self.{stream}"
        self._has_own_events = _records_only(kind, self._stream)
        self._known: dict[tuple[str, int], bool] = {}  # (method, depth) -> whether it waits
        self._known_before: dict[tuple[str, int, int], bool] = {}  # (method, line, depth) -> see `are_before`

    def are_before(self, method: Method, line: int, depth: int) -> bool:
        """Return whether the host may wait in a method before a line, or in its callers before the call."""
        key = method.name, line, depth
        if key not in self._known_before:
            self._known_before[key] = self._are_before(method, line, depth)
        return self._known_before[key]

    def _are_before(self, method: Method, line: int, depth: int) -> bool:
        if any(call.lineno < line and self.is_wait(call, depth) for call in _calls(method)):
            return True
        callers = [
            (other, call)
            for other in self._methods.values()
            for call in _calls(other)
            if other is not method and own_attribute(call.func) == method.name
        ]
        return depth > 0 and any(self.are_before(other, call.lineno, depth - 1) for other, call in callers)

    def _waits_in(self, method: Method, depth: int) -> bool:
        """Return whether a method may make the host wait, up to a depth of calls."""
        key = method.name, depth
        if key not in self._known:
            self._known[key] = depth > 0 and any(self.is_wait(inner, depth - 1) for inner in _calls(method))
        return self._known[key]

    def is_wait(self, call: ast.Call, depth: int) -> bool:
        """Return whether a call may make the host wait for other streams."""
        name, owner = last_name(call.func), call.func.value if isinstance(call.func, ast.Attribute) else None
        if name == "synchronize" and owner is not None and not text(owner).endswith("cuda"):
            return text(owner) != self._stream and not self._has_own_events
        called = self._methods.get(own_attribute(call.func))
        if called is not None:
            return self._waits_in(called, depth)
        return name in _READS or (name not in _OF_STREAMS and may_wait(name))


@once
def _calls(method: Method) -> list[ast.Call]:
    return [node for node in own_nodes(method) if isinstance(node, ast.Call)]


def _records_only(kind: ast.ClassDef, stream: str) -> bool:
    """Return whether a class records events, and all of them on a stream that it names."""
    records = [node for node in walk(kind) if isinstance(node, ast.Call) and last_name(node.func) == "record"]
    given = [arguments_of(call) for call in records]
    return bool(given) and all([text(part) for part in parts] == [stream] for parts in given)


def is_cast(call: ast.Call) -> bool:
    """Return whether a call casts a tensor, `x.float()`, instead of reading it on the host, `float(x)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"float", "int", "bool"}
