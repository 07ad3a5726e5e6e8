"""Reporting of launches and of host accesses."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from syncheck.hb.ids import Access, Accesses, Context, SiteId, StreamId
from syncheck.instrument.plan import Argument, Plan, unique
from syncheck.sim.autograd import Backward
from syncheck.sim.runtime import Runtime

TensorArguments = list[tuple[torch.Tensor, Argument]]


class OperatorCall(NamedTuple):
    """A call of an operator that runs on a device; `tensors`: those among its arguments."""

    func: Any
    plan: Plan
    tensors: TensorArguments
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    device: int


class Launches:
    """Reports launches and host accesses.

    Attributes:
        before_launch: callbacks that receive (stream, accesses) of each launch before it is reported.
    """

    def __init__(self, runtime: Runtime, backward: Backward) -> None:
        self._runtime = runtime
        self._backward = backward
        self._gpus = runtime.gpus
        self._memory = runtime.memory
        self.before_launch: list[Callable[[StreamId, Accesses], None]] = []

    def launch(
        self,
        stream: StreamId,
        operator: str,
        accesses: list[Access],
        context: Context | None = None,
        site: SiteId | None = None,
    ) -> None:
        """Report one launch.

        Args:
            stream: the stream that it runs on.
            operator: the operator's name.
            accesses: its reads and writes.
            context: an entered stream context that does not apply to it.
            site: the call site; None to look it up.
        """
        self._memory.flush()
        gpus = self._gpus
        for act in self.before_launch:
            act(stream, accesses)
        if site is None:
            site = gpus.site()
        is_in_backward = self._backward.local.run is not None
        if is_in_backward:
            context = None  # nodes run on the streams of their forward, whatever context the caller has entered
        if gpus.thread.inherited is not None:
            gpus.check_inherited(stream, site)
            context = gpus.lost_context() or context
        if is_in_backward:
            self._backward.protect_gradients(stream, accesses)
        self._memory.used_by(stream)
        gpus.monitor.launch(stream, operator, unique(accesses), site, context)
        self._runtime.name_findings()
        alone = self._memory.alone
        if not (alone.stream or alone.has_ended):
            alone.stream = stream

    def host_access(self, operator: str, tensors: TensorArguments) -> None:
        """Report host accesses to tensors that a stream may be using."""
        accesses: list[Access] = []
        for tensor, argument in tensors:
            if self._memory.of(tensor) is not None and tensor.numel():
                self._memory.add_access(accesses, tensor, is_write=argument.is_write)
        if accesses:
            self._memory.flush()
            if self._runtime.deferral is not None:
                self._runtime.deferral.host_reads([tensor for tensor, argument in tensors if not argument.is_write])
            self._gpus.monitor.host_access(operator, accesses, self._gpus.site())
            self._runtime.name_findings()

    def host_read(self, operator: str, tensor: torch.Tensor) -> None:
        """Report a host read of a tensor that a stream may be using."""
        self.host_access(operator, [(tensor, _READ)])

    def host_write(self, operator: str, tensor: torch.Tensor) -> None:
        """Report a host write to a tensor that a stream may be using."""
        self.host_access(operator, [(tensor, _WRITE)])


_READ = Argument(0, "self", is_list=False, is_write=False, is_read=True)
_WRITE = Argument(0, "self", is_list=False, is_write=True, is_read=False)
