"""Variables, attributes and items that may be None, judging by the assignments in a file."""

import ast
from collections.abc import Iterator
from functools import cached_property

from syncheck.source.bindings import Scope, binding_scope
from syncheck.source.expressions import bodies, has_line, last_name


class NoneValues:
    """The names in a file that are set to None.

    Args:
        tree: the file.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree

    def includes(self, node: ast.expr, line: int, scope: Scope, *, is_direct: bool = True) -> bool:
        """Return whether an expression may be None before a line.

        A variable may be None if the function that binds it sets it to None, or only has it as a parameter with that
        default. Attributes and items are compared by name with all assignments in the file. A private event of another
        object, which no assignment in the file shows, may be None. What an earlier statement of the same block has set
        to the result of a call is not None.

        Args:
            node: the expression.
            line: the line.
            scope: the scope of the line.
            is_direct: whether the variables that it is set to are followed.
        """
        if self._is_just_set(ast.unparse(node), line):
            return False
        match node:
            case ast.Attribute(value=owner, attr=name):
                is_unknown = _is_private_event(owner, name) and name not in self._assigned_attributes
                return name in self._attributes or is_unknown
            case ast.Subscript(value=container):
                return last_name(container) in self._containers
            case ast.Name(id=name):
                values = _values(name, scope)
                return any(
                    _has_none(one) or (is_direct and self.includes(one, line, scope, is_direct=False)) for one in values
                )
            case _:
                return False

    @cached_property
    def _assignments(self) -> list[tuple[ast.expr, ast.expr]]:
        return list(_assigned(self._tree))

    def _is_just_set(self, name: str, line: int) -> bool:
        """Return whether the last assignment to a name that precedes a line in its block is the result of a call."""
        found = False
        for statement in _preceding(self._tree.body, line):
            is_certain = isinstance(statement, ast.Assign | ast.AnnAssign)
            for target, value in _assigned(statement):
                if ast.unparse(target) == name:
                    found = isinstance(value, ast.Call) and (is_certain or found)
        return found

    @cached_property
    def _attributes(self) -> frozenset[str]:
        """The names of attributes that are set to None somewhere."""
        targets = (target for target, value in self._assignments if _has_none(value))
        return frozenset(target.attr for target in targets if isinstance(target, ast.Attribute))

    @cached_property
    def _assigned_attributes(self) -> frozenset[str]:
        """The names of all attributes that the file sets."""
        return frozenset(target.attr for target, _ in self._assignments if isinstance(target, ast.Attribute))

    @cached_property
    def _containers(self) -> frozenset[str]:
        """The names of containers that have an item that is None."""
        filled = (last_name(target) for target, value in self._assignments if _holds_none(value))
        return frozenset(filled) - {""}


def _is_private_event(owner: ast.expr, name: str) -> bool:
    """Return whether an attribute is private to another object, and no stream: objects keep their streams."""
    is_own = isinstance(owner, ast.Name) and owner.id in {"self", "cls"}
    return name.startswith("_") and "stream" not in name and not is_own


def _preceding(block: list[ast.stmt], line: int) -> list[ast.stmt]:
    """Return the statements that precede a line in the innermost block that contains it."""
    around = next((one for one in block if has_line(one, line)), None)
    for part in bodies(around) if around is not None else ():
        if part and part[0].lineno <= line <= (part[-1].end_lineno or line):
            return _preceding(part, line)
    return [one for one in block if (one.end_lineno or one.lineno) < line]


def _values(name: str, scope: Scope) -> list[ast.expr]:
    """Return the values that a variable is set to; its default if it is only a parameter."""
    owner = binding_scope(name, scope)
    if owner is None:
        return []
    found = [value for target, value in _assigned(owner.node) if isinstance(target, ast.Name) and target.id == name]
    return found or [value for parameter, value in _defaults(owner.node) if parameter == name]


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of all assignments in a node with their values, those of tuples one by one."""
    for statement in ast.walk(node):
        match statement:
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value
            case ast.Assign(targets=targets, value=value):
                for each in targets:
                    yield from _unpacked(each, value)
            case _:
                pass


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _defaults(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters of a function that have a default, with the default."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    args = node.args
    by_position = [*args.posonlyargs, *args.args]
    for parameter, value in zip(reversed(by_position), reversed(args.defaults), strict=False):
        yield parameter.arg, value
    for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            yield parameter.arg, default


def _has_none(value: ast.expr) -> bool:
    """Return whether an expression is None, or is None in one of its cases."""
    if isinstance(value, ast.IfExp):
        return _has_none(value.body) or _has_none(value.orelse)
    return isinstance(value, ast.Constant) and value.value is None


def _holds_none(value: ast.expr) -> bool:
    """Return whether an expression creates a container with an item that is None, such as `[None] * 2`."""
    match value:
        case ast.BinOp(left=ast.List() as items, op=ast.Mult()):
            return _holds_none(items)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Dict(values=items):
            return any(map(_has_none, items))
        case ast.ListComp(elt=item) | ast.DictComp(value=item):
            return _has_none(item)
        case _:
            return False
