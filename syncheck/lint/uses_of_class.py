"""Use of a class by a program: the constructor, then the methods in an order that callers may choose.

Hooks that the constructor registers run before each method that does more than wait, as in a backward pass.
"""

import ast
import contextlib
from collections.abc import Iterable, Iterator

from syncheck.lint.assumed_arguments import reuse_memory
from syncheck.lint.assumed_objects import AssumedObjects
from syncheck.lint.callers import PassedOnObjects, PassedOnTensor, consume
from syncheck.lint.classes import after_constructor, only_waits
from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import Call, Class, Function, Value
from syncheck.lint.models.hooks import run_hooks
from syncheck.lint.nodes import Method, once, parameters, text, walk

_Member = tuple[Method, Function]


def follow(interpreter: Interpreter, made: Class, steps: list[Method], objects: AssumedObjects) -> None:
    """Interpret the constructor of a class, and some of its methods in order."""
    machine = interpreter.machine
    machine.called_later = frozenset(steps)
    instance = objects.new(interpreter, made)
    interpreter.decisions.begin()
    found = ((step, made.members.get(step.name)) for step in steps)
    members = [(step, member) for step, member in found if isinstance(member, Function)]
    shared = _shared_indices(step for step, _ in members)
    known = {step: shared.get(step, {}) | objects.arguments(interpreter, member) for step, member in members}
    passed_on, objects_passed_on = PassedOnTensor(), PassedOnObjects(known.values())
    awaited = _awaited_by_others(machine.sites.tree) - _awaited_by_itself(made.node)
    for step, member in _with_hooks(machine, interpreter, after_constructor(machine, members, instance)):
        machine.current_node = step
        with contextlib.suppress(Raised):
            args = objects_passed_on.among(passed_on.among(machine, known[step], step))
            before = machine.next_ident()
            result = interpreter.call_function(member, Call(step, [instance], args, is_complete=False))
            passed_on.note(machine, result, step)
            if not objects_passed_on.take(result):
                consume(interpreter, result, step, before)
            del result, args
        interpreter.collectives.escape_all(value for name, value in instance.attributes.items() if name in awaited)
        reuse_memory(machine, step)
    for value in (value for given in known.values() for value in given.values()):
        interpreter.escape(value)


@once
def _awaited_by_others(tree: ast.Module) -> frozenset[str]:
    """Return the attributes of objects whose handles other code of a file waits for: `bucket.work.wait()`."""
    return frozenset(name for owner, name in _awaited(tree) if owner != "self")


@once
def _awaited_by_itself(kind: ast.ClassDef) -> frozenset[str]:
    """Return the attributes whose handles a class waits for itself."""
    return frozenset(name for owner, name in _awaited(kind) if owner == "self")


def _awaited(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the owner, as written, and the name of each attribute that is waited for."""
    for inner in walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=owner, attr=name), attr="wait")):
                yield text(owner), name
            case _:
                pass


def _shared_indices(methods: Iterable[Method]) -> dict[Method, dict[str, Value]]:
    """Return the arguments by which several methods choose an item: the caller passes each method the same one.

    In `begin(slot)` and `end(slot)`, both methods use `self.slots[slot]`.
    """
    found: dict[Method, dict[str, Value]] = {}
    made: dict[str, Value] = {}
    for method in methods:
        given = {argument.arg for argument in parameters(method)}
        for name in given & _indices(method):
            found.setdefault(method, {})[name] = made.setdefault(name, Value())
    return found


@once
def _indices(method: Method) -> set[str]:
    """Return the variables that a method uses as an index or a key."""
    found = set[str]()
    for node in walk(method):
        match node:
            case ast.Subscript(slice=ast.Name(id=name)):
                found.add(name)
            case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[ast.Name(id=name), *_]):
                found.add(name)
            case _:
                pass
    return found


def _with_hooks(machine: Machine, interpreter: Interpreter, members: list[_Member]) -> Iterator[_Member]:
    """Yield the methods to call; run the hooks before each that does more than wait, and then those that wait."""
    waiting = list({step: (step, member) for step, member in members if only_waits(step)}.values())
    for step, member in members:
        if machine.hooks and not only_waits(step):
            run_hooks(interpreter)
            yield from waiting
        yield step, member
