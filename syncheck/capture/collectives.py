"""What the collectives of torch.distributed read and write: their schemas do not say."""

from dataclasses import replace
from typing import Any

from syncheck.capture.plan import Argument, Plan
from syncheck.capture.plan import plan_of as plan_of_schema

# Collectives whose `tensors` are read and written, or only written, or only read.
# Source: torch/csrc/distributed/c10d/Ops.cpp, the schemas and what each implementation does with its tensors.
_WRITING = frozenset("allreduce_ allreduce_coalesced_ reduce_ broadcast_ recv_ recv_any_source_".split())
_READING = frozenset({"send"})


def plan_of(func: Any) -> Plan | None:
    """Return the plan of an operator of torch.distributed; None for any other operator."""
    schema = func._schema  # noqa: SLF001  torch offers no public name
    namespace, _, base = schema.name.partition("::")
    if namespace != "c10d":
        return None
    arguments = []
    for index, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if "Tensor" not in kind or argument.name == "sparse_indices":
            continue
        is_output = argument.name.startswith("output")
        writes = is_output or (base in _WRITING and argument.name == "tensors")
        reads = argument.name.startswith("input") or base in _READING or writes
        if reads or writes:
            arguments.append(Argument(index, argument.name, "List" in kind or "[]" in kind, writes, reads))
    return replace(plan_of_schema(func), tensors=tuple(arguments), touches=True, writes_outputs=False)
