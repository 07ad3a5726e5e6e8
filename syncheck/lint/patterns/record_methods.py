"""Methods `record_stream` of a batch that leave out a tensor which the batch moves to a GPU (SYN201)."""

import ast
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.lint.locations import main_lines_of
from syncheck.lint.nodes import Method, methods_of, names, own_attribute, parameters, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import missing_record_stream
from syncheck.source.expressions import last_name

_MOVING = frozenset({"to", "cuda", "to_device", "apply", "_apply", "map", "pin_memory"})
"""Methods of a batch that return it with its tensors on another device."""
_MOVES = frozenset({"to", "cuda", "apply"})
"""Methods that move a tensor, or the parts of a batch, to a GPU."""
_PASSIVE = frozenset(
    {"len", "isinstance", "type", "list", "tuple", "dict", "getattr", "hasattr", "replace", "str", "int"}
)
_GENERIC = frozenset(
    {"vars", "fields", "getattr", "__dict__", "asdict", "super", "tree_map", "values", "items", "apply"}
)
"""Names whose use shows that a method may record all fields without naming them."""
_HELP = "record `self.{field}` on `{stream}`, too"


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "def record_stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the methods. They are warnings, since the tensor may be small and live longer for another reason."""
    lines = main_lines_of(context.known)
    kinds = [node for node in context.tree.body if isinstance(node, ast.ClassDef)]
    recordable = {"Tensor"} | {kind.name for kind in kinds if "record_stream" in methods_of(kind)}
    for kind in kinds:
        method = methods_of(kind).get("record_stream")
        if method is None or _is_generic(method):
            continue
        calls = [
            node for node in walk(method) if isinstance(node, ast.Call) and last_name(node.func) == "record_stream"
        ]
        given = [argument.arg for argument in parameters(method)][1:2]
        missing = sorted(_fields(kind, recordable) & _moved_by(kind) - _used_in(method))
        if not given or not calls or not missing or calls[-1].lineno in lines:
            continue
        field = missing[0]
        facts = {"tensor": f"`self.{field}`", "user": f"`{given[0]}`", "verb": "using"}
        advice = _HELP.format(field=field, stream=given[0])
        yield context.sites.warning(missing_record_stream.RULE, calls[-1], method.name, advice, **facts)


def _is_generic(method: Method) -> bool:
    """Return whether a method may record tensors that it does not name."""
    named = [node for node in walk(method) if isinstance(node, ast.Name | ast.Attribute)]
    used = {last_name(node) for node in named if not own_attribute(node)}  # a field may be called `values`
    own = {own_attribute(node.func) for node in walk(method) if isinstance(node, ast.Call)} - {""}
    return bool(used & _GENERIC or own)


def _fields(kind: ast.ClassDef, recordable: set[str]) -> set[str]:
    """Return the annotated fields of a class that are, or contain, something that can be recorded."""
    annotated = [step for step in kind.body if isinstance(step, ast.AnnAssign) and isinstance(step.target, ast.Name)]
    return {
        last_name(step.target)
        for step in annotated
        if any(last_name(node) in recordable for node in walk(step.annotation) if isinstance(node, ast.expr))
    }


def _used_in(method: Method) -> set[str]:
    return {own_attribute(node) for node in walk(method)} - {""}


def _moved_by(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that a method of a batch moves to another device, not those that it only passes on."""
    return {name for title, method in methods_of(kind).items() if title in _MOVING for name in _moved_in(method)}


def _moved_in(method: Method) -> Iterator[str]:
    nodes = walk(method)
    aliases = {
        target.id: own_attribute(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and own_attribute(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _MOVES:
                yield aliases.get(name, "")
            case ast.Call(func=ast.Attribute(value=moved, attr=attr)) if attr in _MOVES:
                yield own_attribute(moved)
            case ast.Call(func=ast.Name(id=name), args=given) if name.islower() and name not in _PASSIVE:
                yield from map(own_attribute, given)
            case ast.ListComp(elt=made, generators=[loop, *_]) | ast.DictComp(value=made, generators=[loop, *_]):
                yield from _iterated(loop, made)
            case _:
                pass


def _iterated(loop: ast.comprehension, made: ast.expr) -> Iterator[str]:
    """Yield the attribute whose items a comprehension moves."""
    source = loop.iter
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):  # `self.parts.items()`
        source = source.func.value
    calls = [node for node in walk(made) if isinstance(node, ast.Call)]
    if any(names(loop.target) & names(call) for call in calls):
        yield own_attribute(source)
