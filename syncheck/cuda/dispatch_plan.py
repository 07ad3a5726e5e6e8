"""The part of an operator's plan that the hot path needs, derived once."""

from functools import partial
from typing import Any

import torch

from syncheck.instrument.inner_operators import as_without_mode, calls_others, may_be_traced_in_parts
from syncheck.instrument.plan import Plan
from syncheck.instrument.torch_internals import is_composite, schema_of
from syncheck.semantics.operators import ALLOCATING, ROWS, SILENT
from syncheck.semantics.waits import READS_NUMBER


class DispatchPlan:
    """An operator's plan in the form that the hot path needs."""

    __slots__ = (
        "arguments", "call", "fresh", "func", "has_rows", "is_composite", "is_flat", "is_item", "is_seen", "listens",
        "may_have_parts", "off", "plan", "special",
    )  # fmt: skip

    def __init__(self, func: Any, plan: Plan, special: Any) -> None:
        self.func = func  # keeps it alive, because plans are looked up by its id
        self.is_composite = is_composite(func)
        self.may_have_parts = self.is_composite or may_be_traced_in_parts(func)
        self.plan = plan
        self.off = None if plan.off is None else DispatchPlan(func, plan.off, special)
        self.special = special
        self.call = func._op  # the callee of OpOverload.__call__, saving a Python frame
        if calls_others(func):
            self.call = partial(as_without_mode, func, func._op)
        touched = [a for a in plan.tensors if plan.touches and (a.is_read or a.is_write)]
        self.arguments = tuple((a.position, a.name, a.is_list, a.is_write) for a in touched)
        returns = schema_of(func).returns
        makes = any(r.alias_info is None and "Tensor" in str(r.type) for r in returns)
        self.fresh = makes and (plan.writes_outputs or plan.base in ALLOCATING)
        types = [str(r.type) for r in returns]
        self.is_flat = types == ["List[Tensor]"] or (len(types) > 1 and not any("List" in kind for kind in types))
        is_marker = func.namespace == "profiler"  # such as those that an optimizer puts around its step
        self.is_seen = not is_marker and bool(plan.touches or self.fresh or special or plan.synchronizes)
        self.has_rows = plan.base in ROWS
        self.is_item = plan.base == "_local_scalar_dense"
        is_idle = not self.is_seen and func.namespace in {"aten", "profiler"}
        self.listens = plan.synchronizes or not (is_silent(func) or is_idle)


class HigherOrder:
    """Plan of a higher-order operator, such as a conditional, whose inner operators are dispatched to the mode."""

    off = None
    is_composite = False
    may_have_parts = False
    is_item = False
    is_seen = False
    listens = True
    special = None
    plan = None

    def __init__(self, func: Any) -> None:
        self.func = self.call = func


def is_silent(func: Any) -> bool:
    """Return whether an operator never records, waits or synchronizes, so that its callbacks can stay disabled."""
    schema = schema_of(func)
    base = schema.name.partition("::")[2]
    if func.namespace != "aten" or f"{base}.{schema.overload_name}" in READS_NUMBER:
        return False
    return torch.Tag.pointwise in func.tags or base in SILENT or base.startswith("_foreach_")
