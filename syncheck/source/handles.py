"""How a program can wait for the handles that a statement of it binds."""

import ast


def wait_for(name: str, statement: ast.stmt | None, line: int, column: int) -> str:
    """Return the statement that waits for what a call makes.

    Args:
        name: what the call's statement binds, as `bound_name` returns it: "work", "works[0]", "works[...]".
        statement: the statement; None if it is not known.
        line: of the call.
        column: of the call, from 1; 0 where that is not known.

    Returns:
        "work.wait()", "[handle.wait() for handle in works]"; "" if something else is bound, such as an object that
        holds the handle.
    """
    value = getattr(statement, "value", None)
    if name.endswith("[...]"):
        return _wait_for_each(name.removesuffix("[...]"), value, line, column)
    if "[...]" in name:
        return ""
    is_known = column > 0 and isinstance(value, ast.expr)
    is_handle = any(_is_at(part, line, column) for part in _bound_in(value))
    return f"{name}.wait()" if name and (is_handle or not is_known) else ""


def _bound_in(value: object) -> list[ast.expr]:
    """Return the expressions whose values have names once a statement's value is bound."""
    if not isinstance(value, ast.expr):
        return []
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
    return [value, *parts, *(node.value for node in ast.walk(value) if isinstance(node, ast.NamedExpr))]


def _wait_for_each(name: str, value: object, line: int, column: int) -> str:
    """Return the statement that waits for all handles of a comprehension."""
    match value:
        case ast.ListComp(elt=handle) if _is_at(handle, line, column):
            return f"[handle.wait() for handle in {name}]"
        case ast.DictComp(value=handle) if _is_at(handle, line, column):
            return f"[handle.wait() for handle in {name}.values()]"
        case _:
            return ""


def _is_at(node: ast.expr, line: int, column: int) -> bool:
    """Return whether an expression begins at a position: what is called there is what the expression is about."""
    return (node.lineno, node.col_offset + 1) == (line, column)
