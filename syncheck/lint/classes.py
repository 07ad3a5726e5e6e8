"""Analysis of whole classes: the constructor, then each method twice, in an order that callers may choose.

This shows conflicts over what one method leaves for another. A careful caller waits whenever it can, so each method is
followed by the methods that only wait. A finding that remains concerns that caller, too.
"""

import ast
import itertools
from collections.abc import Iterable, Iterator, Set

from syncheck.findings import Finding, Frame
from syncheck.lint.interp.guards import dispatches
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import (
    UNKNOWN,
    Class,
    Event,
    Function,
    Generator,
    Instance,
    Mapping,
    Sequence,
    Stream,
    Tensor,
    Value,
)
from syncheck.lint.nodes import WAITS, Method, once, own_attribute, statements, walk
from syncheck.lint.prefilter import has_anchor
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_CALLED_BY_PYTHON = frozenset({"__call__", "__iter__", "__next__", "__enter__", "__exit__"})
_AT_THE_END = frozenset("reset clear stop flush finish".split())
_FINAL = frozenset("close shutdown destroy cleanup finalize".split())
"""Words in the names of methods after which an object is not used any more."""
SET_UP = ("setUpClass", "setup_class", "setUp", "asyncSetUp", "setup_method")
"""Methods that unittest and pytest call before each test, in this order."""
_WORKING = frozenset({"non_blocking", "copy_", "async_op"})
_BETWEEN_METHODS = frozenset(
    "SYN101 SYN102 SYN103 SYN104 SYN201 SYN301 SYN302 SYN402 SYN601 SYN602 SYN903 SYN906".split()
)
"""Rules about what one part of a program leaves behind for another part."""
_IN_CLASSES = _BETWEEN_METHODS | {"SYN501"}
"""Rules whose findings may also rest on what the constructor created, which is unknown if a method is run alone."""
_MAX_METHODS = 24
_N_IN_A_ROW = 3
_REPEATED = frozenset({"step", "forward", "__call__"})
"""Methods that programs call in loops, with nothing in between that orders their work."""


def order(kind: ast.ClassDef, *, is_asynchronous: bool = False) -> list[Method]:
    """Return the methods of a class in the order to interpret them; empty if none leaves anything behind.

    Args:
        kind: the class.
        is_asynchronous: whether code of another file that a method uses may leave work running.
    """
    methods = [node for node in kind.body if isinstance(node, Method)]
    hooks = _hooks(kind)
    public = [method for method in methods if _is_public(method) or method.name in hooks]
    if not public or len(public) > _MAX_METHODS or not (is_asynchronous or any(map(has_anchor, methods))):
        return []
    once_only = _called_in_constructor(methods, {method.name for method in public}) - hooks
    public = [method for method in public if method.name not in once_only]
    final = [method for method in public if _is_final(method)]
    last = [method for method in public if words_of(method.name) & _AT_THE_END and method not in final]
    first = [method for method in public if method not in last and method not in final]
    members = {method.name: method for method in methods}
    first.sort(key=lambda method: not _is_waiting_block(method, members))
    waiting = [method for method in (*first, *last) if only_waits(method)]
    working = [method for method in (*first, *last) if method not in waiting]
    single = [step for method in working for step in (method, *waiting)]
    is_ordered_by_class = {method.name for method in waiting} <= _own_calls(kind)
    repeated = [method for method in working if method.name in _REPEATED] if is_ordered_by_class else []
    return [*single, *single, *(method for method in repeated for _ in range(2)), *final]


def callers_first(steps: list[Method]) -> list[Method]:
    """Return the methods to interpret in another order; empty if this changes nothing.

    Those that return something to other methods come last: an unknown caller may wait for what they return, but the
    class shows what its own methods do with it.
    """
    called = {name for method in steps for name in _own_calls(method) - {method.name}}
    ordered = sorted(steps, key=lambda method: method.name in called and _returns_something(method))
    return ordered if ordered != steps else []


@once
def _returns_something(method: Method) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in walk(method))


def _hooks(kind: ast.ClassDef) -> set[str]:
    """Return the methods that a class registers as hooks, which a model or autograd calls."""
    calls = [node for node in walk(kind) if isinstance(node, ast.Call) and last_name(node.func).endswith("_hook")]
    return {own_attribute(value) for call in calls for value in call.args} - {""}


def _called_in_constructor(methods: list[Method], wanted: set[str]) -> set[str]:
    """Return the methods that only the constructor calls. Calling one again would recreate everything."""
    begin = next((method for method in methods if method.name == "__init__"), None)
    found = _members_in(begin) & wanted if begin is not None else set()
    for method in methods if found else ():
        if method is not begin:
            found -= _members_in(method) - {method.name}
    return found


def _members_in(method: Method) -> set[str]:
    return {node.attr for node in walk(method) if isinstance(node, ast.Attribute)}


def _is_public(method: Method) -> bool:
    decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
    is_plain = not decorators & {"staticmethod", "classmethod", "property", "cached_property", "abstractmethod"}
    has_self_parameter = bool(method.args.args) and method.args.args[0].arg == "self"
    return is_plain and has_self_parameter and (not method.name.startswith("_") or method.name in _CALLED_BY_PYTHON)


@once
def only_waits(method: Method) -> bool:
    """Return whether a method waits, and starts no work."""
    nodes = walk(method)
    words = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    words |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    has_others = bool(_own_calls(method)) or any(isinstance(node, ast.With | ast.AsyncWith) for node in nodes)
    changes = any(word.endswith("_") and not word.startswith("_") for word in words)  # in place: `add_`
    return bool(words & WAITS) and not words & _WORKING and not has_others and not changes


@once
def _own_calls(node: ast.AST) -> frozenset[str]:
    """Return the methods that a class or a method calls of its own object."""
    return frozenset(own_attribute(call.func) for call in walk(node) if isinstance(call, ast.Call)) - {""}


def has_more_paths(steps: list[Method]) -> bool:
    """Return whether further paths through a class can show more than those through its only method."""
    return len(set(steps)) > 1 or any(isinstance(node, ast.If) and dispatches(node) for node in walk(steps[0]))


def _is_waiting_block(method: Method, members: dict[str, Method]) -> bool:
    """Return whether a method is a context manager that waits. A caller that does not enter it must not rely on that.

    Args:
        method: the method.
        members: name -> method of the class.
    """
    if not any(last_name(decorator) == "contextmanager" for decorator in method.decorator_list):
        return False
    called = [members[name] for name in _own_calls(method) if name in members]
    return any(WAITS & _members_in(one) for one in (method, *called))


def _is_final(method: Method) -> bool:
    """Return whether an object is not used any more after a method, judging by its name."""
    return bool(words_of(method.name) & _FINAL)


def after_constructor(
    machine: Machine, members: list[tuple[Method, Function]], instance: Instance
) -> list[tuple[Method, Function]]:
    """Return the methods to call on a new object, in order.

    All work of the constructor is assumed to be complete, unless it copies something to the host. Then the methods that
    only wait come first, because any other method may read the copy. An object with a ring is used for longer, because
    two rounds would use each of its slots only once: for two more rounds, and then each method several times in a row.
    """
    used = [member for member in members if not _is_final(member[0])]
    in_a_row = [member for member in used[: len(used) // 2] for _ in range(_N_IN_A_ROW)]
    more = [*used, *in_a_row] if _has_ring(instance) else []
    rounds = [*used, *more, *(member for member in members if _is_final(member[0]))]
    if machine.self_waits.fetching:
        return [*(member for member in members if only_waits(member[0])), *rounds]
    machine.assume_synchronized()
    return rounds


def _has_ring(instance: Instance) -> bool:
    """Return whether an object, or one that it has, holds a list of several objects, such as the slots of a ring."""
    held = [value for value in instance.attributes.values() if isinstance(value, Instance)]
    return any(_is_ring(value) for owner in (instance, *held) for value in owner.attributes.values())


def _is_ring(value: Value) -> bool:
    if isinstance(value, Generator):
        return isinstance(value.values, itertools.cycle)
    items = value.items if isinstance(value, Sequence) else []
    return len(items) > 1 and all(isinstance(item, Instance | Tensor) for item in items)


def _is_read_of_constructor(finding: Finding) -> bool:
    """Return whether a method reads on the host what the constructor copies."""
    return finding.rule.code == "SYN301" and finding.location.frame.function != "__init__"


def between_methods(findings: Iterable[Finding], known: Iterable[Finding]) -> Iterator[Finding]:
    """Yield, as warnings, the new findings that only several methods show together: they rest on the order of calls."""
    said = {(finding.rule, finding.location.frame.line) for finding in known}
    lines = {line for _, line in said}
    for finding in findings:
        functions = {location.frame.function for location in finding.locations}
        is_new = (finding.rule, finding.location.frame.line) not in said
        if "__init__" in functions and not _is_read_of_constructor(finding):
            continue  # the caller may synchronize before it calls a method
        if finding.rule.code == "SYN201" and any(words_of(name) & (_AT_THE_END | _FINAL) for name in functions):
            continue  # it is unknown when that method is called, and the memory may have been used before
        is_between = len(functions) > 1 or finding.location.frame.line not in lines
        if finding.rule.code in _IN_CLASSES and is_between and is_new:
            yield finding.as_warning()


def with_passed_on(
    findings: Iterable[Finding], passed: Set[str], moves: Set[Frame], again: Set[tuple[str, Frame]]
) -> Iterator[Finding]:
    """Yield findings, downgrading or dropping those that are uncertain.

    Args:
        findings: the findings.
        passed: the names of functions that were passed to other code.
        moves: the locations where something is moved to a GPU, judging by the name of the called function.
        again: findings that only two calls of a function show together, as (rule code, location).
    """
    for finding in findings:
        frames = {location.frame for location in finding.locations}
        functions = {frame.function for frame in frames}
        if frames & moves:
            if finding.rule.code == "SYN201":  # other rules depend on when the moved data is ready, which is unknown
                yield finding.as_warning()
        elif (finding.rule.code, finding.location.frame) in again:
            yield finding.as_warning()
        elif not functions & passed:
            yield finding
        elif finding.rule.code in _BETWEEN_METHODS:
            yield finding if len(functions) == 1 else finding.as_warning()


def assigned_elsewhere(kind: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """Return attribute -> values that methods assign to it, except those that set up an object. Others add no value."""
    found: dict[str, list[ast.expr | None]] = {}
    for member in kind.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) or member.name in {"__init__", *SET_UP}:
            continue
        for statement in statements(member):
            for target in _targets(statement):
                if isinstance(statement, ast.Assign) and isinstance(target, ast.Attribute):
                    found.setdefault(target.attr, []).append(statement.value)
                for node in walk(target):
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                        found.setdefault(node.attr, [])
    return found


def _targets(statement: ast.AST) -> list[ast.expr]:
    """Return the targets that a statement binds, sets or deletes, except for names that it imports or defines."""
    match statement:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return []


def lazily_created(interpreter: Interpreter, kind: Class, values: list[ast.expr | None]) -> Value:
    """Return the stream that all assignments to an attribute create; UNKNOWN if any assigns something else."""
    made = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
    if made and all(isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".Stream") for value in made):
        return interpreter.evaluate(made[0], kind.scope)
    return UNKNOWN


def without_changes(value: Value) -> Value:
    """Return a value after dropping what other code may have changed. Streams are kept."""
    if isinstance(value, Event):
        value.escaped = True
    if isinstance(value, Instance):  # another method may have recorded the events of an object that the object has
        for held in value.attributes.values():
            if isinstance(held, Event):
                held.escaped = True
    if isinstance(value, Sequence | Mapping):
        items = list(value.items.values() if isinstance(value, Mapping) else value.items)
        for item in items:
            without_changes(item)
        value.is_open |= not items  # other code may have added some
        return value if all(isinstance(item, Stream | Event) for item in items) else UNKNOWN
    return value
