"""Statements that wait for the handles bound by a statement of the program."""

import ast
from collections.abc import Iterable

from syncheck.source.expressions import calls_in, is_at


def wait_for(name: str, statement: ast.stmt | None, line: int, column: int) -> str:
    """Return the statement that waits for the result of a call.

    Args:
        name: the name that the call's statement binds, as returned by `bound_name`: "work", "works[0]", "works[...]".
        statement: the statement; None if unknown.
        line: line of the call.
        column: column of the call, from 1; 0 if unknown.

    Returns:
        "work.wait()", "[handle.wait() for handle in works]"; "" if something else is bound, such as an object that
        contains the handle.
    """
    value = getattr(statement, "value", None)
    if name.endswith("[...]"):
        is_list = returns_several(statement, line, column)
        return _wait_for_each(name.removesuffix("[...]"), value, line, column, is_list=is_list)
    if "[...]" in name:
        return ""
    is_known = column > 0 and isinstance(value, ast.expr)
    is_handle = any(is_at(part, line, column) for part in _bound_values(value))
    if not name or (is_known and not is_handle):
        return ""
    return wait_for_result(name, statement, line, column)


def wait_for_result(name: str, statement: ast.stmt | None, line: int, column: int) -> str:
    """Return the statement that waits for what a call returns, if it has this name: one handle, or a list of them."""
    return f"[handle.wait() for handle in {name}]" if returns_several(statement, line, column) else f"{name}.wait()"


def returns_several(statement: ast.stmt | None, line: int, column: int) -> bool:
    """Return whether a call returns a list of handles.

    Source:
        torch/distributed/distributed_c10d.py: `batch_isend_irecv` returns a list of works.
    """
    exact = (call for call in calls_in(statement) if is_at(call, line, column))
    return any(ast.unparse(call.func).endswith("batch_isend_irecv") for call in exact)


def wait_for_all(
    statement: ast.stmt | None, line: int, column: int, kind: str, taken: ast.stmt | None = None
) -> tuple[str, str]:
    """Return the container in which a statement stores a call's handle, and the statement that waits for all of them.

    Args:
        statement: the statement; None if unknown.
        line: line of the call.
        column: column of the call, from 1.
        kind: kind of the container's initial value in the program: "dict", "list"; "" if unknown.
        taken: the statement that takes the item with the handle out of the container again; None if there is none.

    Returns:
        ("works", "[handle.wait() for handle in works]"), ("sends", "[item[0].wait() for item in sends]") for
        `sends.append((start(x), x))`, or ("sends", "work.wait()") after `work, x = sends.pop()`; ("", "") if it is
        unknown how to access the handles. Where the call returns a list, each item may be such a list.
    """
    container, item = _stored_item(statement)
    if container is None or item is None or (kind == "" and isinstance(statement, ast.Assign)):
        return "", ""
    accessor = _accessor_of(item, line, column)
    is_list, is_extension = returns_several(statement, line, column), _is_extension(statement)
    if accessor is None or (is_extension and (taken is not None or not is_list)):
        return "", ""
    if taken is not None:
        handle = _taken_handle(taken, accessor)
        return (ast.unparse(container), wait_for_result(handle, statement, line, column)) if handle else ("", "")
    items = f"{ast.unparse(container)}.values()" if kind == "dict" else ast.unparse(container)
    is_nested = isinstance(statement, ast.Expr | ast.AugAssign) and isinstance(_container_of(statement), ast.Subscript)
    may_be_none = isinstance(statement, ast.Assign) and kind == "list"
    are_lists = is_list and not is_extension
    wait = _wait_for_items(items, accessor, is_nested=is_nested, may_be_none=may_be_none, are_lists=are_lists)
    return ast.unparse(container), wait


def _wait_for_items(
    items: str, accessor: str, *, is_nested: bool = False, may_be_none: bool = False, are_lists: bool = False
) -> str:
    """Return the statement that waits for all handles of a container.

    Args:
        items: the expression for its items.
        accessor: the index of the handle in an item; "" if the items are the handles.
        is_nested: its items are containers of such items.
        may_be_none: an item may be None.
        are_lists: there is a list of handles in place of each handle.
    """
    variable = "item" if accessor or are_lists else "handle"
    among = f"several in {items} for {variable} in several" if is_nested else f"{variable} in {items}"
    condition = f" if {variable} is not None" if may_be_none else ""
    if are_lists:
        return f"[handle.wait() for {among}{condition} for handle in {variable}{accessor}]"
    return f"[{variable}{accessor}.wait() for {among}{condition}]"


def last_taken(statements: Iterable[ast.stmt], container: str, line: int) -> ast.stmt | None:
    """Return the last statement before a line that binds an item taken out of a container: `work = works.pop()`."""
    found = None
    for statement in statements:
        match statement:
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=owner, attr="pop" | "popleft"))):
                if statement.lineno < line and ast.unparse(owner) == container:
                    found = statement
            case _:
                pass
    return found


def _taken_handle(taken: ast.stmt, accessor: str) -> str:
    """Return the variable that holds the handle in an item that a statement binds; "" if unknown."""
    match taken:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return f"{name}{accessor}"
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if accessor:
            index = int(accessor.strip("[]"))
            part = parts[index] if index < len(parts) else None
            return part.id if isinstance(part, ast.Name) and part.id != "_" else ""
        case _:
            return ""


def container_in(statement: ast.stmt | None) -> str:
    """Return the container in which a statement stores something; "" if there is none."""
    container, _ = _stored_item(statement)
    return ast.unparse(container) if container is not None else ""


def _stored_item(statement: ast.stmt | None) -> tuple[ast.expr | None, ast.expr | None]:
    """Return the container and the item stored in it: for `works[0].append(start())`, `works` and `start()`.

    The statement may also pass a lambda on that stores it.
    """
    statement = _storing(statement)
    match statement:
        case ast.Expr(value=ast.Call(args=[item])) | ast.AugAssign(op=ast.Add(), value=item):
            appended_to = _container_of(statement)
        case ast.Assign(targets=[ast.Subscript() as appended_to], value=item):
            pass
        case _:
            return None, None
    container = appended_to.value if isinstance(appended_to, ast.Subscript) else appended_to
    return (container, item) if isinstance(container, ast.Name | ast.Attribute) else (None, None)


def _storing(statement: ast.stmt | None) -> ast.stmt | None:
    """Return a statement, or the body of the only lambda in it as a statement."""
    lambdas = [node for node in ast.walk(statement) if isinstance(node, ast.Lambda)] if statement is not None else []
    return ast.Expr(lambdas[0].body) if len(lambdas) == 1 else statement


def _container_of(statement: ast.Expr | ast.AugAssign) -> ast.expr | None:
    match statement:
        case ast.AugAssign(target=container):
            return container
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=container, attr="append" | "add" | "extend"))):
            return container
        case _:
            return None


def _is_extension(statement: ast.stmt | None) -> bool:
    """Return whether a statement stores the items of a list in a container, and not the list itself."""
    match _storing(statement):
        case ast.AugAssign() | ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend"))):
            return True
        case _:
            return False


def _accessor_of(item: ast.expr, line: int, column: int) -> str | None:
    """Return the accessor of a handle within a stored item: "" or "[0]"; None if it is not part of the item."""
    if is_at(item, line, column):
        return ""
    parts = item.elts if isinstance(item, ast.Tuple | ast.List) else []
    index = next((index for index, part in enumerate(parts) if is_at(part, line, column)), None)
    return None if index is None else f"[{index}]"


def _bound_values(value: object) -> list[ast.expr]:
    """Return the expressions whose values are named once a statement's value is bound."""
    if not isinstance(value, ast.expr):
        return []
    parts = value.elts if isinstance(value, ast.List | ast.Tuple) else []
    return [value, *parts, *(node.value for node in ast.walk(value) if isinstance(node, ast.NamedExpr))]


def _wait_for_each(name: str, value: object, line: int, column: int, *, is_list: bool) -> str:
    """Return the statement that waits for all handles of a comprehension."""
    match value:
        case ast.ListComp(elt=item):
            items = name
        case ast.DictComp(value=item):
            items = f"{name}.values()"
        case _:
            return ""
    accessor = _accessor_of(item, line, column)
    return "" if accessor is None else _wait_for_items(items, accessor, are_lists=is_list)
