"""What the program calls a tensor at a statement."""

import re

from syncheck.hb.ids import AllocationId
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import Instance, Mapping, Sequence, Tensor, Value


def name_of(allocation: AllocationId, scope: Scope, text: str) -> str:
    """Return what names memory in a scope, rather with words of a text; "" if nothing does."""
    words = set(re.findall(r"\w+", text))
    found: list[str] = []
    around: Scope | None = scope
    while around is not None:
        for name, value in around.names.items():
            found += _names_in(name, value, allocation)
        around = around.parent
    spoken = [name for name in found if set(re.findall(r"[A-Za-z_]\w*", name)) <= words]
    return (spoken or found or [""])[0]


def _names_in(name: str, value: Value, allocation: AllocationId) -> list[str]:
    if isinstance(value, Tensor):
        return [name] if value.block.ident == allocation else []
    if isinstance(value, Sequence):
        inside = [(f"{name}[{index}]", item) for index, item in enumerate(value.items)]
    elif isinstance(value, Mapping):
        inside = [(f"{name}[{key!r}]", item) for key, item in value.items.items()]
    elif isinstance(value, Instance) and name == "self":
        inside = [(f"{name}.{key}", item) for key, item in value.attributes.items()]
    else:
        return []
    return [text for text, item in inside if isinstance(item, Tensor) and item.block.ident == allocation]
