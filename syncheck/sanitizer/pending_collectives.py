"""Asynchronous collectives that are never waited for (SYN603)."""

from dataclasses import dataclass

from syncheck.hb.engine import Engine
from syncheck.hb.ids import SiteId, StreamId
from syncheck.rules import dropped_work
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.fixes import wait_at_once
from syncheck.semantics.collectives import collective_name, is_functional

_MAX_KEPT = 256
"""Number of collectives kept before those that were waited for are removed."""

_KEEP = (", or keep its handle and call `wait()` on it before the tensors are used again",)


@dataclass(frozen=True, slots=True)
class _Work:
    """A collective: its stream, its op on that stream, and its call site."""

    stream: StreamId
    epoch: int
    operator: str
    site: SiteId


class PendingCollectives:
    """Tracks the collectives whose handles the program holds."""

    def __init__(self, engine: Engine, collector: Collector) -> None:
        self._engine = engine
        self._collector = collector
        self._works: list[_Work] = []

    def add(self, stream: StreamId, operator: str, site: SiteId) -> None:
        """Note that the latest op on a stream is a collective."""
        self._works.append(_Work(stream, self._engine.now(stream), operator, site))
        if len(self._works) > _MAX_KEPT:
            waiting = [work for work in self._works if not self._is_awaited(work)]
            self._works = waiting[-_MAX_KEPT // 2 :]

    def _is_awaited(self, work: _Work) -> bool:
        if self._engine.host_covers(work.epoch):
            return True
        others = (stream for stream in self._collector.names.streams if stream != work.stream)
        return any(self._engine.covers(stream, work.epoch) for stream in others)

    def report(self) -> None:
        """Report, at the end of the program, the collectives that were never waited for."""
        works, self._works = self._works, []
        for work in works:
            if not self._is_awaited(work):
                name = (f"`{collective_name(work.operator)}`",)
                fix = wait_at_once(work.operator, work.site)
                advice = () if is_functional(work.operator) else _KEEP
                self._collector.add(PendingFinding(dropped_work.RULE, work.site, {"collective": name}, [], advice, fix))


RULES = (dropped_work.RULE,)
"""The rules that this module reports."""
