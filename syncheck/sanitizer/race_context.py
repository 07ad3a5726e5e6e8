"""Input of the decision table: a race, both of its accesses, and the surrounding state."""

from dataclasses import dataclass
from typing import NamedTuple

from syncheck.hb.clock import HOST
from syncheck.hb.engine import Engine, Race
from syncheck.hb.footprint import certainly_overlap
from syncheck.hb.ids import EVERY_THREAD, NO_ALLOCATION, UNKNOWN_SITE, EventId, SiteId, StreamId
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import Names, StreamRef, TensorRef, Text, ThreadRef
from syncheck.sanitizer.sync_history import SyncHistory, Wait

UNSEEN_WRITE = "a write through numpy or a pointer"
"""Operator of a change that was detected afterwards; its call site is the place of detection, not of the change."""


class EarlyRecord(NamedTuple):
    """A record of an event, made before the prior access on the same stream; the current actor waited for it after."""

    event: EventId
    site: SiteId


@dataclass(frozen=True, slots=True)
class RaceContext:
    """All data available to a row of the table; `events`: those that cover the prior access, best first."""

    race: Race
    prior: Label
    current: Label
    tensor: TensorRef
    engine: Engine
    sync_history: SyncHistory
    names: Names
    events: tuple[EventId, ...] = ()
    early_record: EarlyRecord | None = None

    @property
    def is_host(self) -> bool:
        """Return whether the host completed the race."""
        return self.race.current.actor == HOST

    @property
    def is_certain(self) -> bool:
        """Return whether the accesses certainly overlap, whatever rows an index selects."""
        race = self.race
        return race.is_first_use or certainly_overlap(race.prior.footprint, race.current.footprint)

    @property
    def is_between_threads(self) -> bool:
        """Return whether different threads of the program made or submitted the two accesses."""
        return self.prior.host != self.current.host and EVERY_THREAD not in {self.prior.host, self.current.host}

    @property
    def handed_over_at(self) -> SiteId:
        """The call of `record_stream` that passed the tensor on to the current access's stream; 0 if there is none.

        It comes after the prior access, which was made on the tensor's own stream.
        """
        race = self.race
        if race.allocation == NO_ALLOCATION or self.engine.home_of(race.allocation) != race.prior.actor:
            return UNKNOWN_SITE
        note = self.engine.records(race.allocation).get(race.current.actor)
        return note.site if note is not None and note.epoch >= race.prior.epoch else UNKNOWN_SITE

    @property
    def default_stream_behind(self) -> StreamId:
        """The default stream of the current access's device if it comes after the prior access; 0 otherwise."""
        race = self.race
        if HOST in {race.current.actor, race.prior.actor}:
            return HOST
        streams, device = self.names.streams, self.device(race.current.actor)
        default = next((one for one, info in streams.items() if not info.handle and info.device == device), HOST)
        if default in {HOST, race.current.actor, race.prior.actor}:
            return HOST
        return default if self.engine.stream_covers(default, race.prior.epoch) else HOST

    @property
    def streams_behind(self) -> list[StreamId]:
        """The program's streams, other than those of the two accesses, whose later work comes after the prior one."""
        race = self.race
        others = (one for one, info in self.names.streams.items() if not info.is_internal)
        ours = {HOST, race.current.actor, race.prior.actor}
        return [one for one in others if one not in ours and self.engine.stream_covers(one, race.prior.epoch)]

    @property
    def wait_for_itself(self) -> Wait | None:
        """The later stream's newest wait, after the prior access, for an event that it recorded itself; or None."""
        reader = self.race.current.actor
        waits = self.sync_history.waits_after(self.race.prior.epoch)
        return next((wait for wait in waits if wait.event and wait.waiter == wait.recorded[0] == reader), None)

    def device(self, stream: StreamId) -> int:
        """Return a stream's device."""
        return self.names.streams[stream].device

    def is_internal(self, stream: StreamId) -> bool:
        """Return whether a stream was created internally by torch."""
        return self.names.streams[stream].is_internal

    @property
    def prior_work(self) -> str:
        """Name of the operator that made the prior access."""
        return "the replay" if self.prior.is_replay else self.prior.operator.removeprefix("aten::")

    @property
    def access_text(self) -> Text:
        """Description of the earlier access, as a related message."""
        verb = "wrote" if self.race.prior.is_write else "read"
        access_text: Text = (StreamRef(self.race.prior.actor), f" {verb} it here ({self.prior_work})")
        return (*access_text, ", in ", ThreadRef(self.prior.host)) if self.is_between_threads else access_text
