"""Monitor calls that are buffered."""

from collections import deque
from collections.abc import Callable
from typing import Any

from syncheck.hb.ids import Access, AllocationId, SiteId, StreamId
from syncheck.sanitizer.monitor import Monitor

Call = tuple[Any, ...]
"""(name of a method of `Monitor`, its arguments...)."""

_ENOUGH = 2048
"""This many calls are flushed at once: most memory of a training step was freed by then, and need not be reported."""


class CallBuffer:
    """Calls of the monitor whose results are not needed at once, in their order: they complete no finding.

    A call is added without a lock, at any moment and from any thread: also while the monitor works.

    Attributes:
        monitor: receives them.
        calls: those not yet flushed.
        add: adds a call.
        condenses: leave out what nothing can follow from.

    Args:
        monitor: receives them.
        failed: called with the call that the monitor could not take, and its error.
    """

    def __init__(self, monitor: Monitor, failed: Callable[[str, Exception], None]) -> None:
        self.monitor = monitor
        self.calls: deque[Call] = deque()
        self.add: Callable[[Call], None] = self.calls.append
        self.condenses = True
        self._failed = failed
        self._delivered: set[str] = set()  # operators that the monitor knows

    def launch(self, stream: StreamId, operator: str, accesses: list[Access], site: SiteId) -> bool:
        """See `Monitor`; return whether enough calls are buffered to flush them.

        Only for work on the one stream that all work and all memory was on so far: no other has touched any memory.
        """
        self.add(("launch", stream, operator, accesses, site))
        return len(self.calls) >= _ENOUGH

    def flush(self) -> None:
        """Make the calls; the caller holds the lock of the monitor."""
        calls = self.calls
        while calls:
            batch = [calls.popleft() for _ in range(len(calls))]
            for name, *arguments in self._condensed(batch) if self.condenses else batch:
                try:
                    getattr(self.monitor, name)(*arguments)
                except Exception as error:  # noqa: BLE001  the border to the user's program
                    operator = next((argument for argument in arguments if isinstance(argument, str)), "memory")
                    self._failed(operator, error)

    def _condensed(self, batch: list[Call]) -> list[Call]:
        """Leave out memory that was allocated and freed meanwhile, and accesses to bytes that were accessed again.

        What comes later is ordered after the last access to a view on a stream exactly if it is after all of them.
        """
        kept: list[Call] = []
        dead: set[AllocationId] = set()
        again: set[Access] = set()  # accesses that come again, later
        born: set[AllocationId] = set()  # allocated in this batch, of those that died
        is_alone = False  # else other streams are at work, and the mere allocation may be a finding
        for call in reversed(batch):
            if call[0] == "launch":
                is_alone = True
                _, stream, operator, accesses, site = call
                last = (
                    () if again.issuperset(accesses) else [a for a in accesses if a[0] not in dead and a not in again]
                )
                if last or operator not in self._delivered:
                    again.update(last)
                    self._delivered.add(operator)
                    kept.append(("launch", stream, operator, last, site))
                elif kept and kept[-1][0] == "launches_elided":
                    kept[-1] = ("launches_elided", stream, kept[-1][2] + 1, kept[-1][3])
                else:
                    kept.append(("launches_elided", stream, 1, site))
            elif call[0] == "free":
                dead.add(call[1])
                kept.append(call)
            elif call[0] == "allocate" and call[1] in dead:
                born.add(call[1])
            else:
                kept.append(call)
        if not is_alone:
            return batch
        return [call for call in reversed(kept) if call[0] != "free" or call[1] not in born]
