"""A buffer of calls to the monitor."""

from collections import deque
from collections.abc import Callable
from typing import Any

from syncheck.hb.ids import Access, AllocationId, SiteId, StreamId
from syncheck.sanitizer.monitor import Monitor

Call = tuple[Any, ...]
"""(name of a `Monitor` method, *arguments)."""

_CALLS_PER_FLUSH = 2048
"""Calls per flush: enough that most memory of a training step has been freed by then and need not be reported."""


class CallBuffer:
    """Ordered calls to the monitor whose results are not needed at once, because they cannot produce findings.

    A call is added without a lock, at any time and from any thread, even while the monitor runs.

    Attributes:
        monitor: receives the calls.
        calls: the calls that have not been flushed yet.
        add: adds a call.
        condenses: leave out calls that have no consequences.

    Args:
        monitor: receives the calls.
        failed: called with the operator of a call that raised, and the exception.
    """

    def __init__(self, monitor: Monitor, failed: Callable[[str, Exception], None]) -> None:
        self.monitor = monitor
        self.calls: deque[Call] = deque()
        self.add: Callable[[Call], None] = self.calls.append
        self.condenses = True
        self._failed = failed
        self._delivered: set[str] = set()  # operators that the monitor has seen

    def launch(self, stream: StreamId, operator: str, accesses: list[Access], site: SiteId) -> bool:
        """Add a launch, as in `Monitor`; return whether the buffer should be flushed.

        Only for launches on the sole stream: no other stream has touched any memory so far.
        """
        self.add(("launch", stream, operator, accesses, site))
        return len(self.calls) >= _CALLS_PER_FLUSH

    def flush(self) -> None:
        """Make the calls; the caller holds the monitor's lock."""
        calls = self.calls
        while calls:
            batch = [calls.popleft() for _ in range(len(calls))]
            for name, *arguments in self._condensed(batch) if self.condenses else batch:
                try:
                    getattr(self.monitor, name)(*arguments)
                except Exception as error:  # noqa: BLE001  the boundary to the user's program
                    operator = next((argument for argument in arguments if isinstance(argument, str)), "memory")
                    self._failed(operator, error)

    def _condensed(self, batch: list[Call]) -> list[Call]:
        """Leave out memory that was allocated and freed within the batch, and accesses that are repeated later in it.

        A later operation is ordered after the last access to a view on a stream exactly if it is after all of them.
        """
        result: list[Call] = []
        freed: set[AllocationId] = set()
        repeated: set[Access] = set()  # accesses that occur later in the batch
        created: set[AllocationId] = set()  # those of the freed allocations that were made in this batch
        is_alone = False  # otherwise other streams are in use, and an allocation alone may produce a finding
        for call in reversed(batch):
            if call[0] == "launch":
                is_alone = True
                _, stream, operator, accesses, site = call
                new = (
                    ()
                    if repeated.issuperset(accesses)
                    else [a for a in accesses if a[0] not in freed and a not in repeated]
                )
                if new or operator not in self._delivered:
                    repeated.update(new)
                    self._delivered.add(operator)
                    result.append(("launch", stream, operator, new, site))
                elif result and result[-1][0] == "launches_elided":
                    result[-1] = ("launches_elided", stream, result[-1][2] + 1, result[-1][3])
                else:
                    result.append(("launches_elided", stream, 1, site))
            elif call[0] == "free":
                freed.add(call[1])
                result.append(call)
            elif call[0] == "allocate" and call[1] in freed:
                created.add(call[1])
            else:
                result.append(call)
        if not is_alone:
            return batch
        return [call for call in reversed(result) if call[0] != "free" or call[1] not in created]
