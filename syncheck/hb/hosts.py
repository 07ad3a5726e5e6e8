"""The host's threads: what each knows to be complete, and what orders their steps.

A thread's steps are stamped with one counter of all threads, its moments. What a thread has seen of the others is a
moment up to which all steps of all threads are before it, and for some threads a later one.
"""

from dataclasses import dataclass, field

from syncheck.hb.clock import VectorClock, join
from syncheck.hb.ids import EVERY_THREAD, MAIN_THREAD, HostId, SyncId

Moment = int
"""When a thread did something, counted over all threads; 0 is before all that was counted."""

_KEPT = 1024
"""Threads whose knowledge is kept: those beyond, the oldest, are taken to know what any thread does."""


@dataclass(slots=True)
class Knowledge:
    """What a thread knows, or what it left in an object that orders threads.

    Attributes:
        clock: what is known to be complete.
        floor: all threads' steps up to this moment are before it.
        seen: thread -> moment up to which its steps are before it, where that is after `floor`.
    """

    clock: VectorClock
    floor: Moment = 0
    seen: dict[HostId, Moment] = field(default_factory=dict)

    def take(self, other: "Knowledge") -> bool:
        """Take over all that another one holds; return whether more is known to be complete."""
        self.floor = max(self.floor, other.floor)
        for host, moment in other.seen.items():
            self.note(host, moment)
        if len(other.clock) > len(self.clock):
            self.clock += [0] * (len(other.clock) - len(self.clock))
        return join(self.clock, other.clock)

    def note(self, host: HostId, moment: Moment) -> None:
        """A thread's steps up to a moment are before this."""
        if moment > max(self.floor, self.seen.get(host, 0)):
            self.seen[host] = moment


@dataclass(slots=True)
class Host(Knowledge):
    """A thread of the program.

    Attributes:
        version: another one for each thread, and whenever more is known to be complete.
    """

    version: int = 0


class Hosts:
    """All threads, and the objects that order them.

    Until a call of this class other than `learn` is made there is one thread, the main one, and no step is counted.

    Attributes:
        current: the thread whose calls are looked at.
        ident: its id.
        are_several: there has been more than one thread.
    """

    def __init__(self) -> None:
        self.current = Host([0])
        self.ident = MAIN_THREAD
        self.are_several = False
        self._threads: dict[HostId, Host] = {MAIN_THREAD: self.current}
        self._everyone = self.current  # what any thread knows
        self._syncs: dict[SyncId, Knowledge] = {}
        self._moment = 0
        self._versions = 0
        self._n_actors = 1
        self._latest = MAIN_THREAD

    @property
    def everyone(self) -> VectorClock:
        """What any thread knows to be complete; not to be changed."""
        return self._everyone.clock

    def add_actor(self) -> None:
        """There is one more stream."""
        self._n_actors += 1
        for host in (*self._threads.values(), *((self._everyone,) if self.are_several else ())):
            host.clock.append(0)

    def learn(self, clock: VectorClock) -> bool:
        """The current thread gets to know that work is complete; return whether it did not know all of it."""
        changed = join(self.current.clock, clock)
        if changed:
            self._versions += 1
            self.current.version = self._versions
            if self.are_several:
                self._spread(clock)
        return changed

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
        """What comes is done by a thread, a new one that knows nothing if it has not been seen before."""
        self._be_several()
        if host == EVERY_THREAD:
            self.ident, self.current = host, self._everyone
            return
        if host not in self._threads:
            self._add(host)
        self.ident, self.current = host, self._threads[host]

    def _add(self, host: HostId) -> None:
        self._versions += 1
        self._threads[host] = Host([0] * self._n_actors, version=self._versions)
        if host <= self._latest:  # it was forgotten: what it knew is not known any more
            self._threads[host].take(Knowledge(self._everyone.clock, self._moment))
        self._latest = max(self._latest, host)
        if len(self._threads) > _KEPT:
            del self._threads[next(other for other in self._threads if other not in {MAIN_THREAD, self.ident, host})]

    def _be_several(self) -> None:
        if not self.are_several:
            self.are_several = True
            self._versions += 1
            self._everyone = Host(list(self.current.clock), version=self._versions)

    def release(self, sync: SyncId) -> None:
        """What the current thread has done and knows is before whoever acquires an object from now on."""
        self._be_several()
        left = self._syncs.setdefault(sync, Knowledge([]))
        left.take(self.current)
        if self.ident == EVERY_THREAD:
            left.floor = self._moment
        else:
            left.note(self.ident, self._moment)

    def acquire(self, sync: SyncId) -> None:
        """What was released to an object is before what the current thread does from now on."""
        self._be_several()
        left = self._syncs.get(sync)
        if left is not None:
            self._take(left)

    def acquire_all(self) -> None:
        """All that any thread has done so far is before what the current thread does from now on."""
        self._be_several()
        self._take(Knowledge(self._everyone.clock, self._moment))
        self.current.seen.clear()

    def _take(self, left: Knowledge) -> None:
        if self.ident != EVERY_THREAD and self.current.take(left):  # every thread knows what any thread does
            self._versions += 1
            self.current.version = self._versions

    def forget(self, sync: SyncId) -> None:
        """An object that orders threads is gone."""
        self._syncs.pop(sync, None)

    # -- steps

    def step(self) -> Moment:
        """Return the moment of a step that the current thread makes now."""
        self._moment += 1
        return self._moment

    def follows(self, host: HostId, moment: Moment) -> bool:
        """Return whether what the current thread does now comes after a step of a thread."""
        current = self.current
        return (
            host in {self.ident, EVERY_THREAD}
            or self.ident == EVERY_THREAD
            or moment <= current.floor
            or current.seen.get(host, 0) >= moment
        )
