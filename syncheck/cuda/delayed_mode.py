"""The dispatch mode of a run that delays one launch."""

from typing import Any

from syncheck.cuda.delayed_calls import Call
from syncheck.cuda.delays import Delays
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.mode import WatchMode
from syncheck.cuda.timing import device_of
from syncheck.instrument.collectives import process_group
from syncheck.instrument.plan import tensors_of
from syncheck.semantics.collectives import NAMESPACES


class DelayedMode(WatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs and logs operators, and delays the one that the schedule names.

    Attributes:
        delays: delays and records operators.
    """

    delays: Delays

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, delayed if necessary."""
        dispatch = self._plans.get(id(func)) or self._operators.plan(func)
        if not isinstance(dispatch, DispatchPlan) or not dispatch.is_seen or not self._takes.issuperset(types):
            # the parts of a composite operator are dispatched here, too
            return super().__torch_dispatch__(func, types, args, kwargs)
        running = self.delays.begin(_call(dispatch, args, kwargs or {}))
        if running is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self.delays.around(running):
            result = super().__torch_dispatch__(func, types, args, kwargs)
        self.delays.end(running, result)
        return result


def _call(dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    plan = dispatch.plan
    tensors = [
        (tensor, argument.is_write)
        for tensor, argument in tensors_of(plan, args, kwargs)
        if argument.is_read or argument.is_write
    ]
    device = device_of(plan.base, args, kwargs)
    is_collective = dispatch.func.namespace in NAMESPACES
    group = process_group(dispatch.func, args, kwargs) if is_collective else None
    return Call(plan.name, plan.touches, device, tensors, is_collective, group)
