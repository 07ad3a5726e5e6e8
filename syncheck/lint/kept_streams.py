"""The streams that a class creates and keeps."""

import ast
from collections.abc import Set

from syncheck.lint.nodes import own_attribute, statements, text, without_none
from syncheck.source.expressions import last_name

_NO_NAMES: frozenset[str] = frozenset()


def streams_kept_by(kind: ast.ClassDef, made_elsewhere: Set[str] = _NO_NAMES) -> set[str]:
    """Return the attributes to which a class assigns new streams and nothing else, or which others set to such streams.

    Args:
        kind: the class.
        made_elsewhere: the attributes that other classes of the file assign new streams to. They count if this class
            declares them as streams.
    """
    declared = (node for node in kind.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    made = {text(node.target) for node in declared if last_name(without_none(node.annotation)) == "Stream"}
    made &= made_elsewhere
    other: set[str] = set()
    for node in statements(kind):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        is_stream = all(map(makes_stream, _values_of(node.value)))
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Attribute) and not is_none and not _hands_on(target, node.value):
                (made if is_stream else other).add(target.attr)
    return made - other


def _hands_on(target: ast.Attribute, value: ast.expr) -> bool:
    """Return whether an assignment gives another object a stream under the same name: `layer.stream = self.stream`."""
    return bool(own_attribute(value)) and target.attr == own_attribute(value) and not own_attribute(target)


def _values_of(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a container display or comprehension, or else the expression itself."""
    match node:
        case ast.ListComp(elt=element) | ast.DictComp(value=element):
            return [element]
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements:
            return elements
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(), made]):  # `stream or torch.cuda.Stream()`
            return [made]
        case ast.IfExp(test=ast.Compare(left=ast.Name(id=name)), body=body, orelse=orelse) if name in map(
            text, (body, orelse)
        ):
            return [orelse if text(body) == name else body]
        case (
            ast.IfExp(body=body, orelse=ast.Constant(value=None))
            | ast.IfExp(body=ast.Constant(value=None), orelse=body)
        ):
            return _values_of(body)
        case _:
            return [node]


def makes_stream(node: ast.expr | None) -> bool:
    """Return whether an expression creates a stream."""
    return isinstance(node, ast.Call) and last_name(node.func) == "Stream"


def is_known_use(node: ast.Attribute | ast.Name, parent: ast.AST) -> bool:
    """Return whether a stream is only tested, or given to other objects under the same name."""
    match parent:
        case ast.IfExp(test=test):
            return test is node
        case ast.Assign(targets=targets) if isinstance(node, ast.Attribute):
            return {target.attr if isinstance(target, ast.Attribute) else "" for target in targets} == {node.attr}
        case _:
            return isinstance(parent, ast.Compare | ast.BoolOp | ast.If | ast.UnaryOp)
