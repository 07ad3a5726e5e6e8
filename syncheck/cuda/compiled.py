"""What the hot path needs of an operator's plan, worked out once."""

from typing import Any

import torch

from syncheck.capture.plan import Plan

_ALLOCATING = frozenset("empty empty_like empty_strided new_empty new_empty_strided empty_permuted".split())


class Compiled:
    """What the hot path needs of a plan."""

    __slots__ = ("arguments", "call", "fresh", "func", "is_composite", "is_seen", "plan", "special")

    def __init__(self, func: Any, plan: Plan, special: Any) -> None:
        self.func = func  # keeps it alive: plans are found by its id
        self.is_composite = _is_composite(func)
        self.plan = plan
        self.special = special
        self.call = func._op  # noqa: SLF001  what OpOverload.__call__ calls, one Python frame deeper
        kept = [a for a in plan.tensors if plan.touches and (a.is_read or a.is_write)]
        self.arguments = tuple((a.position, a.name, a.is_list, a.is_write) for a in kept)
        returns = func._schema.returns  # noqa: SLF001
        makes = any(r.alias_info is None and "Tensor" in str(r.type) for r in returns)
        self.fresh = makes and (plan.writes_outputs or plan.base in _ALLOCATING)
        self.is_seen = bool(plan.touches or self.fresh or special or plan.synchronizes)


class HigherOrder:
    """Stands for an operator whose parts come to the mode by themselves, such as a conditional or a compiled graph."""

    is_composite = False
    is_seen = False
    special = None
    plan = None

    def __init__(self, func: Any) -> None:
        self.func = self.call = func


def _is_composite(func: Any) -> bool:
    """Tell whether an operator is made of others, which the mode sees only if it takes it apart: in inference mode.

    Source:
        torch/_ops.py, `OpOverload.decompose`; with autograd such operators are taken apart before they get here.
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001
    return bool(func.has_kernel_for_dispatch_key(key)) if hasattr(func, "has_kernel_for_dispatch_key") else False
