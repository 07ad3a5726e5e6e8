"""Objects of classes of other files. Their methods are not followed, but a method that waits for a GPU is known to."""

import ast

from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.unknown import called_name, may_wait
from syncheck.lint.interp.values import Call
from syncheck.lint.nodes import methods_of, own_attribute, walk
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_TIMERS = frozenset({"timer", "timers", "stopwatch"})
_OF_STREAMS = frozenset({"wait_stream", "wait_event"})
"""Waits of a stream, which do not block the host."""


class ImportedObjects:
    """The objects that a program creates of such classes, by the names that they are bound to.

    Args:
        machine: the streams, events and memory.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._kinds: dict[str, ast.ClassDef] = {}  # `timer` of `self.timer = Timer()`

    def create(self, kind: ast.ClassDef, call: Call) -> None:
        """Create an object."""
        machine = self._machine
        self._kinds[machine.sites.bound(machine.site(call.node)).rpartition(".")[2]] = kind
        self._run(kind, "__init__")

    def call_method(self, call: Call) -> None:
        """Call something unknown, which may be a method of such an object.

        A timer of an unknown class may wait whenever it starts or stops. This matters only to other clocks.
        """
        function = call.node.func if isinstance(call.node, ast.Call) else None
        if not isinstance(function, ast.Attribute):
            return
        owner = function.value.func if isinstance(function.value, ast.Call) else function.value
        kind = self._kinds.get(last_name(owner))
        if kind is not None:
            self._run(kind, function.attr)
        elif words_of(last_name(owner)) & _TIMERS:
            self._machine.recent.flush()

    def _run(self, kind: ast.ClassDef, method: str) -> None:
        if waits(kind, method):
            self._machine.assume_synchronized()


def waits(kind: ast.ClassDef, name: str) -> bool:
    """Return whether a method of a class, or one that it calls, makes the host wait, judging by its calls' names."""
    methods, waiting = methods_of(kind), [name]
    while waiting:
        method = methods.pop(waiting.pop(), None)
        calls = [node for node in walk(method) if isinstance(node, ast.Call)] if method is not None else []
        if any(map(may_wait, {called_name(call) for call in calls} - _OF_STREAMS)):
            return True
        waiting += [own_attribute(call.func) for call in calls]
    return False
