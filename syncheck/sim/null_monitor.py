"""A monitor that ignores all calls, for child processes that are not checked."""

from types import FrameType
from typing import Any

from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.monitor import Monitor

_ANSWERS = {"view": 0, "is_pending": False, "capturing": False}


class NullMonitor:
    """Accepts every call of `Monitor` and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Monitor, name):
            raise AttributeError(name)
        answer = _ANSWERS.get(name, ())
        return lambda *_, **__: answer


class NoSites(SiteTable):
    """Call sites for when nothing is reported: each is the unknown site."""

    def here(self) -> SiteId:
        """Return the unknown site."""
        return UNKNOWN_SITE

    def capture(self, frame: FrameType | None) -> SiteId:
        """Return the unknown site."""
        del frame
        return UNKNOWN_SITE
