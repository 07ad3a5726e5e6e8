"""The streams that a class creates and keeps."""

import ast

from syncheck.lint.nodes import statements, text
from syncheck.source.expressions import last_name


def streams_kept_by(kind: ast.ClassDef) -> set[str]:
    """Return the attributes to which a class assigns new streams and nothing else."""
    made: set[str] = set()
    other: set[str] = set()
    for node in statements(kind):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        is_stream = all(map(makes_stream, _values_of(node.value)))
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Attribute) and not is_none:
                (made if is_stream else other).add(target.attr)
    return made - other


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
            return [body]
        case _:
            return [node]


def makes_stream(node: ast.expr | None) -> bool:
    """Return whether an expression creates a stream."""
    return isinstance(node, ast.Call) and last_name(node.func) == "Stream"
