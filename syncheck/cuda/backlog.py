"""What happened and the monitor has not been told yet."""

from collections import deque
from collections.abc import Callable
from typing import Any

from syncheck.sanitizer.monitor import Monitor

Accesses = list[tuple[int, int, bool]]
Call = tuple[Any, ...]
"""(name of a method of `Monitor`, its arguments...)."""

_ENOUGH = 2048
"""This many calls are told at once: most memory of a training step was freed by then, and nobody need hear of it."""


class Backlog:
    """Calls of the monitor that nobody waits for, in their order: they complete no finding.

    A call is added without a lock, at any moment and from any thread: also while the monitor works.

    Attributes:
        monitor: is told.
        calls: what it has not been told.
        condenses: leave out what nothing can follow from.

    Args:
        monitor: is told.
        failed: is told what the monitor could not take, and its error.
    """

    def __init__(self, monitor: Monitor, failed: Callable[[str, Exception], None]) -> None:
        self.monitor = monitor
        self.calls: deque[Call] = deque()
        self.condenses = True
        self._failed = failed
        self._told: set[str] = set()  # operators that the monitor has heard of

    def allocate(self, allocation: int, home: int, n_bytes: int, pool: int, site: int) -> None:
        """See `Monitor`."""
        self.calls.append(("allocate", allocation, home, n_bytes, pool, site))

    def launch(self, stream: int, operator: str, accesses: Accesses, lists: list[Accesses], site: int) -> bool:
        """See `Monitor`; tell whether so much happened that the monitor should be told.

        Only for work on the one stream that all work and all memory was on so far: no other has touched any memory.

        Args:
            stream: the stream.
            operator: its name.
            accesses: what it reads and writes.
            lists: further accesses, in lists that may come again as the same objects.
            site: the call.
        """
        calls = self.calls
        calls.append(("launch", stream, operator, accesses, lists, site))
        return len(calls) >= _ENOUGH

    def free(self, allocation: int, site: int) -> None:
        """See `Monitor`."""
        self.calls.append(("free", allocation, site))

    def tell(self) -> None:
        """Make the calls; the caller holds the lock of the monitor."""
        calls = self.calls
        while calls:
            batch = [calls.popleft() for _ in range(len(calls))]
            for name, *arguments in self._condensed(batch) if self.condenses else map(_flat, batch):
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
        later = _Later()
        dead = later.dead
        born: set[int] = set()  # allocated in this batch, of those that died
        is_alone = False  # else other streams are at work, and the mere allocation may be a finding
        for call in reversed(batch):
            if call[0] == "launch":
                is_alone = True
                _, stream, operator, accesses, lists, site = call
                last = later.new(accesses, lists)
                if last or operator not in self._told:
                    self._told.add(operator)
                    kept.append(("launch", stream, operator, last, site))
                elif kept and kept[-1][0] == "passed":
                    kept[-1] = ("passed", stream, kept[-1][2] + 1, kept[-1][3])
                else:
                    kept.append(("passed", stream, 1, site))
            elif call[0] == "free":
                dead.add(call[1])
                kept.append(call)
            elif call[1] in dead:
                born.add(call[1])
            else:
                kept.append(call)
        if not is_alone:
            return batch
        return [call for call in reversed(kept) if call[0] != "free" or call[1] not in born]


class _Later:
    """What is known of the calls after the one that is looked at.

    Attributes:
        dead: allocations that are freed.
    """

    def __init__(self) -> None:
        self.dead: set[int] = set()
        self._again: set[tuple[int, int, bool]] = set()
        self._lists: set[int] = set()  # ids of lists; the batch keeps them

    def new(self, accesses: Accesses, lists: list[Accesses]) -> Accesses:
        """Return the accesses of a launch that do not come again, to memory that stays; from now on, they do."""
        again, dead = self._again, self.dead
        last = [access for access in accesses if access not in again and access[0] not in dead]
        for some in lists:
            if id(some) not in self._lists:
                self._lists.add(id(some))
                last += [access for access in some if access not in again and access[0] not in dead]
        if last:
            again.update(last)
        return last


def _flat(call: Call) -> Call:
    """Return a call as the monitor takes it."""
    if call[0] != "launch":
        return call
    name, stream, operator, accesses, lists, site = call
    return name, stream, operator, sum(lists, accesses), site
