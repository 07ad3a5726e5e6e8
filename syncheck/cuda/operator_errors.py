"""Operators that raise: drops their callbacks and, during a capture, reports operators that cannot be captured."""

from types import FrameType

from syncheck.cuda import devices
from syncheck.cuda.callback_order import PendingCallbacks
from syncheck.cuda.captures import Captures
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.instrument.plan import Plan
from syncheck.semantics.waits import MASKED, NUMBERS

_SYNCHRONIZING_COPIES = frozenset({"_to_copy", "copy_", "_foreach_copy_"})
"""Operators that synchronize if they copy between host and device."""


class OperatorErrors:
    """Handles operators that raise."""

    def __init__(self, reporter: Reporter, streams: Streams, pending: PendingCallbacks, captures: Captures) -> None:
        self._reporter = reporter
        self._streams = streams
        self._pending_callbacks = pending
        self._captures = captures

    def note(self, plan: Plan | None, error: BaseException, frame: FrameType) -> None:
        """Handle an operator that raised.

        Args:
            plan: the operator's plan; None for a higher-order operator.
            error: the exception.
            frame: the frame that the operator ran in.
        """
        if not self._reporter.is_checking:
            return
        self._pending_callbacks.forget(frame)
        if plan is None or not self._captures:
            return
        may_wait = (plan.base in MASKED or plan.base in NUMBERS) and "captur" in str(error)
        if plan.synchronizes or plan.base in _SYNCHRONIZING_COPIES or may_wait:
            self._captures.report_forbidden(plan.name)
            return
        with self._reporter.locked_monitor() as monitor:  # a library initialized itself at first use: missing warm-up
            monitor.launch(self._streams.current(devices.current_device()), plan.name, (), self._reporter.site())
