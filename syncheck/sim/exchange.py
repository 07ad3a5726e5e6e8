"""A collective that gloo runs in two steps."""

from dataclasses import dataclass
from typing import Any

import torch

from syncheck.hb.ids import StreamId
from syncheck.instrument.c10d import wait_for
from syncheck.instrument.plan import Plan, tensors_of
from syncheck.ranks import watchdog
from syncheck.semantics.collectives import WRITING, collective_name
from syncheck.sim.collective_arguments import averages_integers, clone_tensors, copy_results, gloo_arguments, work_in
from syncheck.sim.nccl_groups import NcclGroups


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective called by the program.

    Attributes:
        func, plan, args, kwargs: its operator, and the operator's plan and arguments.
        stream: the stream that it runs on.
        group: the name of its group in the ranks' records.
        is_async: whether the program gets a handle.
    """

    func: Any
    plan: Plan
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stream: StreamId
    group: str
    is_async: bool

    @property
    def written(self) -> list[torch.Tensor]:
        """The tensors that the collective writes."""
        return [tensor for tensor, argument in tensors_of(self.plan, self.args, self.kwargs) if argument.is_write]

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return the tensors that the collective reads, given its arguments. Pure outputs are not read."""
        tensors = tensors_of(self.plan, args, kwargs)
        return [tensor for tensor, argument in tensors if self.plan.base in WRITING or not argument.is_write]


class Exchange:
    """The two steps of a collective run by gloo. It works on copies, so that gloo keeps no tensor of the program alive.

    Attributes:
        call: the collective.
        work: gloo's handle; None before `begin`.
    """

    def __init__(self, call: CollectiveCall, groups: NcclGroups) -> None:
        self.call = call
        self._groups = groups
        self._dtype = torch.float64 if averages_integers(call.plan, call.args, call.kwargs) else None
        self._given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self.work: Any = None

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Read the tensors and start gloo, without waiting for other ranks."""
        plan = self.call.plan
        self._given = clone_tensors(plan, args, kwargs, dtype=self._dtype)
        for_gloo, named = gloo_arguments(plan, *self._given, has_handle=False)
        self.work = work_in(self.call.func(*self._groups.for_gpus(for_gloo), **named))

    def end(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Wait for the other ranks and write the results."""
        plan = self.call.plan
        with watchdog.waiting(collective_name(plan.name), self.call.group):
            wait_for(self.work)
        copy_results(plan, *self._given, tensors_of(plan, args, kwargs))
