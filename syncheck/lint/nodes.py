"""Frequent queries on the nodes of a syntax tree. Each result is cached on its node."""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from syncheck.source.expressions import STREAM_CONTEXTS, bodies, last_name
from syncheck.source.text import parse_expression

WAITS = frozenset({"wait", "wait_stream", "wait_event", "synchronize"})
"""Methods of streams, events and handles after which the host or a stream waits for them."""
HOST_READS = frozenset({"item", "tolist", "cpu", "numpy"})
"""Methods of tensors that return values on the host, which waits for them."""
NO_VALUES = frozenset("shape size dim device dtype numel ndim is_cuda element_size nelement data_ptr".split())
"""Attributes and methods of tensors that do not read their values."""
NO_WRITES = frozenset({"requires_grad_", "share_memory_", "retain_grad_"})
"""Methods whose names end like those of methods that write, and that write nothing."""

VIEWS = frozenset(
    "view view_as reshape flatten squeeze unsqueeze narrow select transpose permute t detach expand".split()
)
"""Methods of a tensor that return a view of it."""

Method = ast.FunctionDef | ast.AsyncFunctionDef
N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class FindClass(Protocol):
    """Finds classes of other files."""

    def __call__(self, name: str, words: Iterable[str] = ()) -> ast.ClassDef | None:
        """Return a class by its full name; None if unknown, or if its source has none of the words."""


_NO_CODE = frozenset(
    "ctx op ops id attr arg kind type_comment type_ignores level module simple is_async conversion asname".split()
)
"""Fields that contain no expressions or statements."""
_MIXED = frozenset({"keys", "kw_defaults", "kwd_attrs", "names"})
"""Fields with lists that may contain something else than nodes."""
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
"""Fields with lists of statements, or with the branches of `try` and `match`."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Kind of node -> its fields that may contain expressions or statements."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = () if kind is ast.Constant else tuple(field for field in kind._fields if field not in _NO_CODE)
        self[kind] = fields
        return fields


_fields = _Fields()


def once(compute: Callable[[N], T]) -> Callable[[N], T]:
    """Return a version of a function that computes its result only once per node."""
    name = f"_answer_of_{compute.__module__}.{compute.__qualname__}"

    def cached(node: N) -> T:
        try:
            answer: T = node.__dict__[name]
        except KeyError:
            answer = node.__dict__[name] = compute(node)
        return answer

    cached.__doc__ = compute.__doc__
    return cached


def walk(node: ast.AST) -> list[ast.AST]:
    """Return a node and its descendants, outer ones first, without contexts and operators.

    This is three times as fast as `ast.walk`.
    """
    found = [node]
    for inner in found:  # the list grows during iteration
        for field in _fields[inner.__class__]:
            part = getattr(inner, field, None)
            if part.__class__ is list:
                found += part if field not in _MIXED else [item for item in part if isinstance(item, ast.AST)]
            elif isinstance(part, ast.AST):
                found.append(part)
    return found


def drop_annotations(function: ast.AST) -> None:
    """Replace the annotated assignments of a function by plain ones: `x: Tensor = y` does the same as `x = y`.

    Those in the body of a class stay, because they declare fields, and so do those of events, whose annotations show
    what they are.
    """
    for node in walk(function):
        for field in ("body", "orelse", "finalbody") if not isinstance(node, ast.ClassDef) else ():
            steps = getattr(node, field, None)
            if isinstance(steps, list):
                steps[:] = map(_without_annotation, steps)


def _without_annotation(step: ast.AST) -> ast.AST:
    if not isinstance(step, ast.AnnAssign) or step.value is None or "Event" in text(step.annotation):
        return step
    return ast.copy_location(ast.Assign([step.target], step.value), step)


@once
def nodes_in(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes of a file, outer ones first, without contexts and operators, and without the file itself."""
    return walk(tree)[1:]


@once
def functions_in(tree: ast.Module) -> list[Method]:
    """Return the functions of a file, outer ones first, with methods and nested functions."""
    return [node for node in nodes_in(tree) if isinstance(node, Method)]


@once
def classes_in(tree: ast.Module) -> list[ast.ClassDef]:
    """Return the classes of a file, outer ones first, with nested ones."""
    return [node for node in nodes_in(tree) if isinstance(node, ast.ClassDef)]


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, without contexts and operators."""
    found: list[ast.AST] = []
    for field in _fields[node.__class__]:
        part = getattr(node, field, None)
        if part.__class__ is list:
            found += part if field not in _MIXED else [item for item in part if isinstance(item, ast.AST)]
        elif isinstance(part, ast.AST):
            found.append(part)
    return found


def statements(node: ast.AST, enters: Callable[[ast.AST], bool] = lambda _: True) -> list[ast.AST]:
    """Return a node and its nested statements, outer ones first; `enters`: whether to descend into a node."""
    found = [node]
    for inner in found:  # the list grows during iteration
        if enters(inner):
            found += branches(inner)
    return found


def branches(node: ast.AST) -> list[Any]:
    """Return the direct child statements and branches of a statement or a branch."""
    return [inner for field in _BODIES for inner in getattr(node, field, ())]


def function_around(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function that contains a line; the tree if there is none."""
    around = [node for node in functions_in(tree) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return max(around, key=lambda node: node.lineno, default=tree)


def blocks_in(function: ast.AST, nodes: Iterable[ast.AST]) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a function; `nodes`: its nodes."""
    for node in (function, *nodes):
        if isinstance(node, ast.stmt):
            yield from bodies(node)


def is_non_blocking(call: ast.Call) -> bool:
    """Return whether a call passes `non_blocking`, unless its value is known to be false."""
    return any(
        word.arg == "non_blocking" and not (isinstance(word.value, ast.Constant) and not word.value.value)
        for word in call.keywords
    )


def changed_in_place(node: ast.AST) -> ast.expr | None:
    """Return the tensor that a call changes by a method such as `x.add_(y)`; None for any other node."""
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=name)) if name.endswith("_") and not name.endswith("__"):
            return target
        case _:
            return None


def first_of(calls: Iterable[ast.Call]) -> ast.Call | None:
    """Return the call that comes first in the file; None if there is none."""
    return min(calls, key=lambda call: (call.lineno, call.col_offset), default=None)


def awaited_event(node: ast.AST) -> ast.expr | None:
    """Return the event that a call lets a stream wait for, `e` of `e.wait()` and `s.wait_event(e)`; None for others."""
    match node:
        case ast.Call(func=ast.Attribute(value=event, attr="wait")):
            return event
        case ast.Call(func=ast.Attribute(attr="wait_event"), args=[event]):
            return event
        case _:
            return None


def recorded_event(node: ast.AST) -> ast.expr | None:
    """Return the event that a call records, `e` of `e.record()` and `s.record_event(e)`; None for any other node."""
    match node:
        case ast.Call(func=ast.Attribute(value=event, attr="record")):
            return event
        case ast.Call(func=ast.Attribute(attr="record_event"), args=[event]):
            return event
        case _:
            return None


def owner_of_call(call: ast.Call) -> str:
    """Return the object whose method is called, as it is written; "" for a function."""
    return text(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def pinned_attributes(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the attributes of objects that some nodes set to pinned memory, or to a list of it."""
    made = (node for node in nodes if isinstance(node, ast.Assign) and "pin_memory" in text(node.value))
    return {own_attribute(target) for node in made for target in node.targets} - {""}


def own_attribute(node: ast.AST | None) -> str:
    """Return "x" for `self.x`; "" for any other node."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return ""


def own_container(node: ast.expr) -> str:
    """Return "x" for `self.x` and its items, and items of items; "" for any other expression."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return own_attribute(node)


def methods_of(kind: ast.ClassDef) -> dict[str, Method]:
    """Return the methods of a class by name."""
    return {step.name: step for step in kind.body if isinstance(step, Method)}


@once
def classes_of_methods(tree: ast.Module) -> dict[ast.AST, ast.ClassDef]:
    """Return the class of each method of a file."""
    return {method: kind for kind in classes_in(tree) for method in methods_of(kind).values()}


def callers_among(methods: Iterable[Method], name: str) -> list[Method]:
    """Return the methods that mention a method of the same object."""
    return [each for each in methods if name in map(own_attribute, walk(each))]


def stored_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables that some nodes bind."""
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def bound_names(node: ast.Assign) -> set[str]:
    """Return the variables that an assignment binds to its value as a whole."""
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def viewed(value: ast.expr, views: Collection[str]) -> ast.expr:
    """Return what an expression is a view of: `x` of `x.view(-1)[2:]`; `views`: the methods that return views."""
    match value:
        case ast.Subscript(value=inner):
            return viewed(inner, views)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in views:
            return viewed(inner, views)
        case _:
            return value


def without_none(annotation: ast.expr | None) -> ast.expr | None:
    """Return the type that an annotation allows besides None: `X` of "X", `X | None` and `Optional[X]`."""
    match annotation:
        case ast.Constant(value=str(quoted)):
            try:
                return without_none(parse_expression(quoted))
            except SyntaxError:
                return None
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            return without_none(inner)
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return without_none(left)
        case _:
            return annotation


def entered_stream(context: ast.expr | None) -> ast.expr | None:
    """Return the stream that `with torch.cuda.stream(...)` or `StreamContext` makes current; None for others."""
    if not isinstance(context, ast.Call) or last_name(context.func) not in STREAM_CONTEXTS or not context.args:
        return None
    return context.args[0]


def is_quoted(name: str, source: str) -> bool:
    """Return whether a file contains a name as a string, as for `getattr`."""
    return re.search(rf"['\"]{name}['\"]", source) is not None


def is_current_stream(node: ast.expr) -> bool:
    """Return whether an expression is a call of `current_stream`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "current_stream"


def current_streams(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables to which some nodes assign the current stream, as written."""
    assigned = (node for node in nodes if isinstance(node, ast.Assign) and is_current_stream(node.value))
    return {text(target) for node in assigned for target in node.targets}


def waits_for_current(call: ast.Call, stream: str, current: Collection[str]) -> bool:
    """Return whether a call makes a stream wait for the current stream; `current`: the variables that hold it."""
    if not isinstance(call.func, ast.Attribute) or text(call.func.value) != stream or len(call.args) != 1:
        return False
    return text(call.args[0]) in current or is_current_stream(call.args[0])


def entered_streams(block: ast.With) -> list[ast.expr]:
    """Return the streams that a block makes current, directly in its `with` statement."""
    streams = (entered_stream(item.context_expr) for item in block.items)
    return [stream for stream in streams if stream is not None]


def blocks_on(stream: str, nodes: Iterable[ast.AST]) -> list[ast.With]:
    """Return the blocks that make a stream current, directly in their `with` statements; `stream`: as written."""
    return [node for node in nodes if isinstance(node, ast.With) and stream in map(text, entered_streams(node))]


def is_on_stream(block: ast.With) -> bool:
    """Return whether a block makes a stream current, directly in its `with` statement."""
    return any(
        isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) in STREAM_CONTEXTS
        for item in block.items
    )


def parameters(function: Method | ast.Lambda) -> list[ast.arg]:
    """Return the parameters of a function, except for `*args` and `**kwargs`."""
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def is_backward(function: Method) -> bool:
    """Return whether a function is that of a `torch.autograd.Function`, judging by its name and first parameter."""
    first = next(iter(function.args.args), None)
    return function.name == "backward" and first is not None and first.arg == "ctx"


@once
def is_abstract(node: ast.AST) -> bool:
    """Return whether a function is a method without code of its own, which other classes define."""
    if not isinstance(node, Method) or not node.args.args or node.args.args[0].arg != "self":
        return False
    is_marked = any(last_name(decorator) == "abstractmethod" for decorator in node.decorator_list)
    match node.body[ast.get_docstring(node, clean=False) is not None :]:
        case [ast.Pass()]:
            return is_marked
        case [ast.Raise(exc=ast.Call(func=raised) | raised)]:
            return last_name(raised) == "NotImplementedError"
        case [*statements]:
            return all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in statements)


@once
def text(node: ast.AST) -> str:
    """Return the source of a node, as written by `ast.unparse`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{text(node.value)}.{node.attr}"
    return ast.unparse(node)


@once
def names(node: ast.AST) -> frozenset[str]:
    """Return the names of the variables in a node."""
    return frozenset(inner.id for inner in walk(node) if isinstance(inner, ast.Name))
