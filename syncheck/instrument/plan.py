"""Operator plans: the tensors that an operator reads and writes, derived from its schema and cached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import torch

from syncheck.hb.ids import Access, AllocationId, ViewId
from syncheck.instrument.torch_internals import schema_of
from syncheck.semantics.library import Effect
from syncheck.semantics.library import operator as described_operator
from syncheck.semantics.operators import HIDDEN_WRITES, METADATA, SIZE_ONLY, SWITCHED_WRITES
from syncheck.semantics.waits import SYNCHRONIZING, may_wait

_DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}


_ALLOCATION = itemgetter(0)


def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype's name, such as "float32" for torch.float32."""
    return _DTYPE_NAMES[dtype]


class Argument(NamedTuple):
    """A tensor argument of an operator; `position` counts from 0."""

    position: int
    name: str
    is_list: bool
    is_write: bool
    is_read: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How to log an operator.

    Attributes:
        name: qualified name, such as "aten::add".
        base: unqualified name, such as "add".
        tensors: the tensor arguments.
        touches: False for an operator that accesses no memory.
        writes_outputs: the operator fills the new tensors that it returns.
        synchronizes: the host waits for the current stream inside the operator.
        may_wait: the host waits in some calls.
        random: the operator draws from a generator.
        has_generator: the operator takes a `generator` argument.
        has_device: the operator takes a `device` argument.
        switch: position of the argument that decides what is written, else -1; see `SWITCHED_WRITES`.
        switch_name: its name; "" if there is none.
        off: the plan that applies where that argument is False or None.
        effect: the operator's effect, if it is described for syncheck.
    """

    name: str
    base: str
    tensors: tuple[Argument, ...]
    touches: bool
    writes_outputs: bool
    synchronizes: bool
    may_wait: bool
    random: bool
    has_generator: bool
    has_device: bool
    switch: int = -1
    switch_name: str = ""
    off: "Plan | None" = None
    effect: Effect | None = None

    def is_off(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether the plan `off` applies to a call."""
        value = args[self.switch] if self.switch < len(args) else kwargs.get(self.switch_name)
        return value is None or value is False


def plan_of(func: Any) -> Plan:
    """Derive the plan of an OpOverload.

    Source:
        `alias_info` of the schema, torch/csrc/jit; a return value that aliases without being written is a view.
    """
    schema = schema_of(func)
    base = schema.name.partition("::")[2]
    effect = described_operator(schema.name)
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    touches = base not in METADATA and not is_view
    arguments = []
    for index, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if "Tensor" not in kind:
            continue
        writes = bool(argument.alias_info is not None and argument.alias_info.is_write)
        writes = writes or index in HIDDEN_WRITES.get(base, ())
        reads = not (base in SIZE_ONLY and index == 0)
        if effect is not None:
            reads, writes = argument.name in effect.reads, argument.name in effect.writes
        arguments.append(Argument(index, argument.name, "[]" in kind or "List" in kind, writes, reads))
    names = [argument.name for argument in schema.arguments]
    plan = Plan(
        name=schema.name,
        base=base,
        tensors=tuple(arguments),
        touches=touches,
        writes_outputs=touches,
        synchronizes=base in SYNCHRONIZING,
        may_wait=may_wait(base),
        random=torch.Tag.nondeterministic_seeded in func.tags,
        has_generator="generator" in names,
        has_device="device" in names,
        effect=effect,
    )
    switch, written = SWITCHED_WRITES.get(base, ("", ()))
    if switch not in names or not any(a.is_write for a in arguments if a.position in written):
        return plan
    read = [a._replace(is_write=False) if a.position in written else a for a in arguments]
    return replace(plan, switch=names.index(switch), switch_name=switch, off=replace(plan, tensors=tuple(read)))


def unique(accesses: list[Access]) -> list[Access]:
    """Deduplicate accesses (allocation, view, is_write); a write subsumes a read of the same bytes."""
    if len(set(map(_ALLOCATION, accesses))) == len(accesses):
        return accesses
    merged: dict[tuple[AllocationId, ViewId], bool] = {}
    for allocation, view, is_write in accesses:
        merged[allocation, view] = is_write or merged.get((allocation, view), False)
    return [(allocation, view, is_write) for (allocation, view), is_write in merged.items()]


def tensors_of(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[torch.Tensor, Argument]]:
    """Return the tensors passed to an operator, each with its argument."""
    found: list[tuple[torch.Tensor, Argument]] = []
    for argument in plan.tensors:
        value = args[argument.position] if argument.position < len(args) else kwargs.get(argument.name)
        if isinstance(value, torch.Tensor):
            found.append((value, argument))
        elif argument.is_list and value is not None:
            found.extend((item, argument) for item in tensors_in(value))
    return found


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an operator's result, searching nested lists and tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
