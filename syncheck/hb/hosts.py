"""Host threads: which work each can rely on to be complete, and the order of their steps.

Steps are stamped with moments, from one counter shared by all threads. For each thread, a floor is stored, a moment up
to which the steps of all threads come before it, and a later moment for some threads.
"""

from dataclasses import dataclass, field

from syncheck.hb.clock import VectorClock, join
from syncheck.hb.ids import EVERY_THREAD, MAIN_THREAD, HostId, SyncId

Moment = int
"""Time of a thread's step, counted over all threads; 0 is before every counted step."""

_KEPT = 1024
"""The most threads whose state is kept; older ones are assumed to be ordered after everything."""


@dataclass(slots=True)
class Knowledge:
    """What is ordered before a thread's next step, or before the release of a synchronization object.

    Attributes:
        clock: the work that is complete.
        floor: moment up to which the steps of all threads come before it.
        seen: thread -> moment up to which its steps come before it, if later than `floor`.
    """

    clock: VectorClock
    floor: Moment = 0
    seen: dict[HostId, Moment] = field(default_factory=dict)

    def merge(self, other: "Knowledge") -> bool:
        """Merge in `other`; return whether more work became complete."""
        self.floor = max(self.floor, other.floor)
        for host, moment in other.seen.items():
            self.note(host, moment)
        if len(other.clock) > len(self.clock):
            self.clock += [0] * (len(other.clock) - len(self.clock))
        return join(self.clock, other.clock)

    def note(self, host: HostId, moment: Moment) -> None:
        """Record that a thread's steps up to a moment come before this."""
        if moment > max(self.floor, self.seen.get(host, 0)):
            self.seen[host] = moment


@dataclass(slots=True)
class Host(Knowledge):
    """A thread of the program.

    Attributes:
        version: unique to the thread, and replaced whenever more work becomes complete for it.
    """

    version: int = 0


class Hosts:
    """All host threads, and the objects that synchronize them.

    Until a method other than `mark_complete` is called there is one thread, the main thread, and steps are not counted.

    Attributes:
        current: the thread whose calls are being checked.
        ident: its id.
        has_threads: whether there has been more than one thread.
    """

    def __init__(self) -> None:
        self.current = Host([0])
        self.ident = MAIN_THREAD
        self.has_threads = False
        self._threads: dict[HostId, Host] = {MAIN_THREAD: self.current}
        self._everyone = self.current  # the union of all threads' state
        self._syncs: dict[SyncId, Knowledge] = {}
        self._moment = 0
        self._versions = 0
        self._n_actors = 1
        self._latest = MAIN_THREAD

    @property
    def everyone(self) -> VectorClock:
        """Work that is complete for at least one thread; read-only."""
        return self._everyone.clock

    def add_actor(self) -> None:
        """Extend all clocks by one stream."""
        self._n_actors += 1
        for host in (*self._threads.values(), *((self._everyone,) if self.has_threads else ())):
            host.clock.append(0)

    def mark_complete(self, clock: VectorClock) -> bool:
        """Mark work as complete for the current thread; return whether any of it was new."""
        changed = join(self.current.clock, clock)
        if changed:
            self.renew()
            if self.has_threads:
                self._spread(clock)
        return changed

    def renew(self) -> None:
        """Give the current thread a new version, because its clock was changed."""
        self._versions += 1
        self.current.version = self._versions

    def _spread(self, clock: VectorClock) -> None:
        if self.ident != EVERY_THREAD:
            join(self._everyone.clock, clock)
            return
        for host in self._threads.values():
            if join(host.clock, clock):
                self._versions += 1
                host.version = self._versions

    # -- threads

    def switch(self, host: HostId) -> None:
        """Make a thread the current one; a thread that is new starts out ordered after nothing."""
        self._enable_threads()
        if host == EVERY_THREAD:
            self.ident, self.current = host, self._everyone
            return
        if host not in self._threads:
            self._add(host)
        self.ident, self.current = host, self._threads[host]

    def _add(self, host: HostId) -> None:
        self._versions += 1
        self._threads[host] = Host([0] * self._n_actors, version=self._versions)
        if host <= self._latest:  # its state was dropped, so assume that it is ordered after everything
            self._threads[host].merge(Knowledge(self._everyone.clock, self._moment))
        self._latest = max(self._latest, host)
        if len(self._threads) > _KEPT:
            del self._threads[next(other for other in self._threads if other not in {MAIN_THREAD, self.ident, host})]

    def _enable_threads(self) -> None:
        if not self.has_threads:
            self.has_threads = True
            self._versions += 1
            self._everyone = Host(list(self.current.clock), version=self._versions)

    def release(self, sync: SyncId) -> None:
        """Order what the current thread has done before every later acquire of an object."""
        self._enable_threads()
        left = self._syncs.setdefault(sync, Knowledge([]))
        left.merge(self.current)
        if self.ident == EVERY_THREAD:
            left.floor = self._moment
        else:
            left.note(self.ident, self._moment)

    def acquire(self, sync: SyncId) -> None:
        """Order everything released to an object before the current thread's next step."""
        self._enable_threads()
        left = self._syncs.get(sync)
        if left is not None:
            self._merge(left)

    def acquire_all(self) -> None:
        """Order everything that any thread has done before the current thread's next step."""
        self._enable_threads()
        self._merge(Knowledge(self._everyone.clock, self._moment))
        self.current.seen.clear()

    def _merge(self, left: Knowledge) -> None:
        if self.ident != EVERY_THREAD and self.current.merge(left):  # EVERY_THREAD already has the union
            self.renew()

    def forget(self, sync: SyncId) -> None:
        """Drop the state of an object that has been destroyed."""
        self._syncs.pop(sync, None)

    # -- steps

    def step(self) -> Moment:
        """Count a step of the current thread and return its moment."""
        self._moment += 1
        return self._moment

    def follows(self, host: HostId, moment: Moment) -> bool:
        """Return whether the current thread's next step comes after a given step of a thread."""
        current = self.current
        return (
            host in {self.ident, EVERY_THREAD}
            or self.ident == EVERY_THREAD
            or moment <= current.floor
            or current.seen.get(host, 0) >= moment
        )
