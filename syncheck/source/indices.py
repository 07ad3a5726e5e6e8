"""Choice of a function's own index expression for an item: `slots[turn % 2]` for "slots[1]"."""

import ast
from collections.abc import Callable, Iterable

from syncheck.source.expressions import has_line, parsed


def with_own_index(
    name: str,
    subscripts: Iterable[ast.Subscript],
    line: int,
    index_of: Callable[[ast.Subscript], object],
    n_items_of: Callable[[ast.expr], int],
) -> str:
    """Replace the constant index at the end of a name by the expression that the function uses for the same item.

    Args:
        name: a name such as "self.slots[1]"; a name without a constant index is returned unchanged.
        subscripts: the subscript expressions of the function.
        line: the line on which the name is needed.
        index_of: returns the current index or key of a subscript expression; None if unknown.
        n_items_of: returns the number of items of a container; 0 if unknown.

    Returns:
        A name such as "self.slots[turn % 2]"; the name itself if the function has no other index for it, or several. If
        it selects no item of that container, the line's index for a container with as many items.
    """
    picked = parsed(name)
    if not isinstance(picked, ast.Subscript) or not isinstance(picked.slice, ast.Constant):
        return name
    base, item = ast.unparse(picked.value), picked.slice.value
    same = [node for node in subscripts if index_of(node) == item]
    indices = {ast.unparse(node.slice) for node in same if ast.unparse(node.value) == base}
    indices = indices or _parallel_indices(picked, [node for node in same if has_line(node, line)], n_items_of)
    indices.discard(repr(item))
    return f"{base}[{indices.pop()}]" if len(indices) == 1 else name


def _parallel_indices(
    picked: ast.Subscript, here: list[ast.Subscript], n_items_of: Callable[[ast.expr], int]
) -> set[str]:
    """Return the indices for the same item of other containers with as many items.

    Such containers have one item for each slot: `copied[slot]` is the event of `buffers[slot]`.
    """
    n_items = n_items_of(picked.value)
    return {ast.unparse(node.slice) for node in here if n_items and n_items_of(node.value) == n_items}
