"""Objects of the program's classes that a method or function is assumed to get, when it is interpreted on its own."""

import ast
import contextlib

from syncheck.hb.ids import NamedKind
from syncheck.lint.assumed_arguments import assumed_arguments
from syncheck.lint.assumed_models import assumed_models, trained_models
from syncheck.lint.classes import SET_UP, assigned_elsewhere, lazily_created, without_changes
from syncheck.lint.given_streams import streams_given
from syncheck.lint.interp.contents import note_earlier_use, open_containers
from syncheck.lint.interp.contexts import unknown_streams
from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.rings import periods
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import (
    UNKNOWN,
    Call,
    Class,
    Constant,
    Function,
    Instance,
    Sequence,
    Stream,
    Symbol,
    Value,
)
from syncheck.lint.nodes import Method, methods_of, parameters, without_none
from syncheck.lint.prefilter import has_anchor, words_in
from syncheck.rules.model import Rule
from syncheck.source.expressions import last_name

_DEEPEST = 3
"""Maximum number of objects that hold one another: a reader with a pool with a ring."""
_LISTS = frozenset({"list", "List", "Sequence", "Iterable", "Collection"})
"""Types of containers that are assumed to hold at least one object, if its class may leave work running."""
_ABOUT_STREAMS = ("SYN1", "SYN2", "SYN3")
"""Prefixes of the rules that depend on which streams a function gets."""
_MOST_LINES = 250
"""Maximum length of a class. A longer one does more than hold buffers and streams."""


class AssumedObjects:
    """Creates such objects. The annotations of parameters show their classes.

    Args:
        has_streams: whether functions and constructors also get streams; see `streams_given`.
    """

    def __init__(self, *, has_streams: bool = False) -> None:
        self._has_streams = has_streams
        self._attributes: dict[ast.ClassDef, dict[str, list[ast.expr | None]]] = {}

    def may_affect(self, rule: Rule) -> bool:
        """Return whether a finding of a rule can depend on these arguments. Without streams, any can."""
        return not self._has_streams or rule.code.startswith(_ABOUT_STREAMS)

    def arguments(self, interpreter: Interpreter, function: Function) -> dict[str, Value]:
        """Return the known arguments of a function that is interpreted on its own, by parameter name."""
        known = assumed_arguments(interpreter.machine, function)
        return known | trained_models(interpreter.machine, function) | self.given(interpreter, function)

    def given(self, interpreter: Interpreter, function: Function, depth: int = _DEEPEST) -> dict[str, Value]:
        """Return the objects that a function gets, by parameter name. All work of their constructors is complete."""
        found = self._streams(interpreter, function)
        for argument in parameters(function.node) if depth else ():
            annotation, is_list = _item_annotation(argument.annotation)
            kind = _class_of(interpreter, annotation, function.scope)
            if kind is None or kind.is_net or _n_lines(kind.node) > _MOST_LINES:
                continue
            if not is_list or has_anchor(kind.node):
                made = self.new(interpreter, kind, argument, depth - 1)
                _forget_periods(made, interpreter.machine.sites.tree)
                found[argument.arg] = Sequence([made], is_open=True) if is_list else made
                open_containers(made)
                note_earlier_use(made)
                interpreter.machine.assume_synchronized()
        return found

    def _streams(
        self, interpreter: Interpreter, function: Function, owner: ast.ClassDef | None = None
    ) -> dict[str, Value]:
        machine = interpreter.machine
        found: dict[str, Value] = {}
        for argument, name in streams_given(function.node, owner) if self._has_streams else ():
            found[argument.arg] = stream = machine.new_stream(machine.device, argument, is_made=False)
            machine.session.name(NamedKind.STREAM, stream.ident, name)
        return found

    def new(
        self, interpreter: Interpreter, kind: Class, node: ast.AST | None = None, depth: int = _DEEPEST
    ) -> Instance:
        """Return a new object.

        Args:
            interpreter: runs the constructor.
            kind: the class.
            node: the place that the constructor is called from; None for the constructor itself.
            depth: maximum number of objects that hold one another.
        """
        instance = Instance(kind)
        begin = kind.find("__init__")
        if isinstance(begin, Function):
            known = self.given(interpreter, begin, depth) | self._streams(interpreter, begin, kind.node)
            known |= assumed_models(interpreter.machine, begin)
            with contextlib.suppress(Raised):
                interpreter.call_function(begin, Call(node or begin.node, [instance], known, is_complete=False))
        for member in map(kind.find, SET_UP):
            if isinstance(member, Function):
                owner = kind if member.is_of_class else instance
                with contextlib.suppress(Raised):
                    interpreter.call_function(member, Call(node or member.node, [owner], is_complete=False))
        for name in _assigned_in_other_files(kind) & instance.attributes.keys():
            if not isinstance(instance.attributes[name], Stream):
                instance.attributes[name] = UNKNOWN
        return instance

    def used(self, interpreter: Interpreter, kind: Class, method: Method) -> Instance:
        """Return an object whose methods may already have been called, in any order, before `method` is called."""
        begin = kind.find("__init__")
        if isinstance(begin, Function) and begin.node is method:
            return Instance(kind)
        instance = self.new(interpreter, kind)
        if _sets_stream(kind.node, method):  # whose thread this method may run in
            interpreter.machine.thread.streams = unknown_streams()
        assigned = self._attributes.get(kind.node)
        if assigned is None:
            assigned = self._attributes[kind.node] = assigned_elsewhere(kind.node)
        for name, value in list(instance.attributes.items()):
            instance.attributes[name] = without_changes(value)
        for name, values in assigned.items():
            if not isinstance(instance.attributes.get(name), Stream):
                instance.attributes[name] = lazily_created(interpreter, kind, values)
        return instance


def _assigned_in_other_files(kind: Class) -> set[str]:
    """Return the attributes that methods of base classes in other files assign, such as `to(device)`."""
    bases = [base for base in kind.bases if isinstance(base, Class)]
    found = {name for base in bases for name in _assigned_in_other_files(base)}
    return found.union(*(assigned_elsewhere(base.node) for base in bases if base.scope.module.is_imported))


def _forget_periods(instance: Instance, tree: ast.Module) -> None:
    """Let the default of a period be unknown: with `every = 10`, a branch runs in the first iteration only."""
    for name in periods(tree):
        if isinstance(instance.attributes.get(name, instance.kind.find(name)), Constant):
            instance.attributes[name] = UNKNOWN


def _sets_stream(kind: ast.ClassDef, method: Method) -> bool:
    """Return whether another method of a class than its constructor and a given method sets the current stream."""
    others = (step for name, step in methods_of(kind).items() if name != "__init__" and step is not method)
    return any("set_stream" in words_in(step) for step in others)


def _n_lines(node: ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _item_annotation(annotation: ast.expr | None) -> tuple[ast.expr | None, bool]:
    """Return the type of the items of a list, or of the value itself, and whether it is a list, by its annotation."""
    match without_none(annotation):
        case ast.Subscript(value=container, slice=item) if last_name(container) in _LISTS:
            return item, True
        case _:
            return annotation, False


def _class_of(interpreter: Interpreter, annotation: ast.expr | None, scope: Scope) -> Class | None:
    """Return the class of the program that an annotation names, optional or not; None for any other."""
    match without_none(annotation):
        case ast.Name(id=name) as named:
            found = scope.find(name)
            if isinstance(found, Symbol):
                found = interpreter.calls.imported.kind(found.path, named)
            return found if isinstance(found, Class) else None
        case _:
            return None
