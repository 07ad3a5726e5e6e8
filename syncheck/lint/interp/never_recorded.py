"""Elapsed times of events that were never recorded (SYN404): the call raises an error."""

import ast

from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.unknown import called_name
from syncheck.lint.interp.values import Event
from syncheck.lint.nodes import function_around, once, walk
from syncheck.rules import elapsed_time_before_sync
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import EventRef, Text
from syncheck.source.expressions import arguments_of

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_RECORDS = frozenset({"record", "record_event"})
_RECORDING_NOTHING = frozenset({"zip", "enumerate", "reversed", "len", "elapsed_time", "synchronize"})
"""Functions that do not record their arguments."""


def report_never_recorded(machine: Machine, event: Event, node: ast.AST) -> bool:
    """Report an elapsed time of an event that was never recorded; return whether that is so.

    Args:
        machine: the machine of the event.
        event: the event.
        node: the call that computes the time.
    """
    if machine.ordering_only or event.recorded is not None or event.escaped or event.made is None:
        return False
    sites = machine.sites
    lines = (getattr(each, "lineno", 1) for each in (node, sites.nodes[event.made - 1]))
    name = sites.bound(event.made).partition("[")[0]
    if not name or any(_may_record(function_around(sites.tree, line), name) for line in lines):
        return False
    facts: dict[str, Text] = {"event": (EventRef(event.ident),)}
    made: Text = ("created here, and never recorded",)
    advice: Text = ("record it: the call raises an error for an event that was never recorded",)
    related = [(event.made, made)]
    machine.session.collector.add(
        PendingFinding(elapsed_time_before_sync.RULE, machine.site(node), facts, related, advice)
    )
    return True


def _may_record(function: ast.AST, name: str) -> bool:
    """Return whether a function may record the event of a variable in code that is not interpreted."""
    events, recorded = _names(function)
    return name in recorded or not recorded <= events


@once
def _names(function: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """Return the variables that a function binds to events, and those that it records or passes on, "" for others.

    Nested functions may run at any time, so a record in one of them counts as "".
    """
    nodes = walk(function)
    inner = [node for node in nodes if isinstance(node, _DEFINITIONS) and node is not function]
    if any(_is_record(node) for each in inner for node in walk(each)):
        return frozenset(), frozenset({""})
    recorded = {node: "" for node in nodes if _is_record(node)}
    events, passed = set[str](), set[str]()
    for node in nodes:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "record":
                recorded[node.func] = _variable(node.func.value)
            elif called_name(node) not in _RECORDING_NOTHING:
                passed |= {_variable(value) for value in arguments_of(node)}
                recorded.pop(node.func, None)
        elif isinstance(node, ast.Assign) and any(map(_is_event, walk(node.value))):
            events |= {inner.id for target in node.targets for inner in walk(target) if isinstance(inner, ast.Name)}
    return frozenset(events), frozenset(recorded.values()) | (passed & events)


def _variable(node: ast.AST) -> str:
    """Return the variable that an expression is or indexes; "" for any other expression."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_event(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "Event"


def _is_record(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _RECORDS
