"""What the decision table looks at: a race, what both sides did, and what is known around it."""

from dataclasses import dataclass

from syncheck.hb.clock import HOST
from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import certainly_overlap
from syncheck.hb.ids import EVERY_THREAD, EventId, StreamId
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import Names, StreamRef, TensorRef, Text, ThreadRef
from syncheck.sanitizer.sync_history import SyncHistory

UNSEEN_WRITE = "a write through numpy or a pointer"
"""The operator of a change that was noticed afterwards: the call site is where, not what changed it."""


@dataclass(frozen=True, slots=True)
class RaceContext:
    """All that a row of the table may look at; `events`: those that stand for the prior access, the best first."""

    race: Race
    prior: Label
    current: Label
    tensor: TensorRef
    engine: Engine
    sync_history: SyncHistory
    names: Names
    events: tuple[EventId, ...] = ()

    @property
    def is_host(self) -> bool:
        """Return whether the host completed the race."""
        return self.race.current.actor == HOST

    @property
    def is_certain(self) -> bool:
        """Return whether both accesses touch common bytes, whichever rows an index names."""
        race = self.race
        return race.is_first_use or certainly_overlap(race.prior.footprint, race.current.footprint)

    @property
    def is_between_threads(self) -> bool:
        """Return whether one thread of the program made or submitted the early access, and another one the late one."""
        return self.prior.host != self.current.host and EVERY_THREAD not in {self.prior.host, self.current.host}

    def device(self, stream: StreamId) -> int:
        """Return a stream's device."""
        return self.names.streams[stream].device

    def is_communication(self, stream: StreamId) -> bool:
        """Return whether a stream is one that torch made for itself."""
        return self.names.streams[stream].is_torchs

    @property
    def did(self) -> Text:
        """What the earlier access did, as a related message."""
        verb = "wrote" if self.race.prior.is_write else "read"
        what = "the replay" if self.prior.is_replay else self.prior.operator.removeprefix("aten::")
        did: Text = (StreamRef(self.race.prior.actor), f" {verb} it here ({what})")
        return (*did, ", in ", ThreadRef(self.prior.host)) if self.is_between_threads else did
