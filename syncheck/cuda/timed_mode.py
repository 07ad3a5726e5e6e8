"""The dispatch mode that also measures; separate, so that runs without times do not pay for it."""

from typing import Any

from syncheck.cuda.mode import WatchMode
from syncheck.cuda.timing import Timing


class TimedMode(WatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs operators, logs them, and measures how long they take."""

    timing: Timing

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        if self.timing.is_over:
            return super().__torch_dispatch__(func, types, args, kwargs)
        dispatch = self._plans.get(id(func)) or self._operators.plan(func)
        interval = self.timing.begin(dispatch, args, kwargs or {})
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if interval is not None:
            assert dispatch.plan is not None, "only operators with a plan are measured"
            self.timing.end(interval, dispatch.plan.name)
        return result
