"""A monitor that ignores all calls, for child processes that are not checked."""

from typing import Any

from syncheck.findings import Frame, Location
from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import Monitor, SourceLine

_ANSWERS = {"view": 0, "is_pending": False, "capturing": False}


class NullMonitor:
    """Accepts every call of `Monitor` and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Monitor, name):
            raise AttributeError(name)
        answer = _ANSWERS.get(name, ())
        return lambda *_, **__: answer


class NoSites:
    """Stub for a table of call sites when nothing is reported."""

    def here(self) -> SiteId:
        """Return the unknown site."""
        return UNKNOWN_SITE

    def location(self, ident: SiteId) -> Location:
        """Return a placeholder for an unknown location."""
        del ident
        return Location(Frame("<unknown>", 0))

    def lines_of(self, ident: SiteId) -> tuple[SourceLine, ...]:
        """Return a placeholder for an unknown line."""
        del ident
        return (SourceLine("<unknown>", 0),)

    def bound(self, ident: SiteId) -> str:
        """Return an empty name."""
        del ident
        return ""

    def ignored(self, ident: SiteId, rule: Rule) -> bool:
        """Return False: no finding is ignored."""
        del ident, rule
        return False

    def ignored_codes(self, ident: SiteId) -> list[str]:
        """Return an empty list: no rule is ignored."""
        del ident
        return []

    def user_code(self, ident: SiteId) -> None:
        """Return None: there is no user code."""
        del ident

    def bound_directly(self, ident: SiteId) -> str:
        """Return an empty name."""
        del ident
        return ""
