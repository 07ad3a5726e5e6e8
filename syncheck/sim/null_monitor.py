"""A monitor that ignores all calls: for forked children, which are left alone, and for spawned ones."""

from typing import Any

from syncheck.findings import Frame, Place
from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import Monitor, SourceLine

_ANSWERS = {"view": 0, "is_pending": False, "capturing": False}


class NullMonitor:
    """Takes every call of `Monitor` and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Monitor, name):
            raise AttributeError(name)
        answer = _ANSWERS.get(name, ())
        return lambda *_, **__: answer


class NoSites:
    """Takes the place of a table of call sites where nothing is reported."""

    def here(self) -> SiteId:
        """Return the unknown site."""
        return UNKNOWN_SITE

    def place(self, ident: SiteId) -> Place:
        """Return no place."""
        del ident
        return Place(Frame("<unknown>", 0))

    def lines_of(self, ident: SiteId) -> tuple[SourceLine, ...]:
        """Return no line."""
        del ident
        return (SourceLine("<unknown>", 0),)

    def bound(self, ident: SiteId) -> str:
        """Return no name."""
        del ident
        return ""

    def ignored(self, ident: SiteId, rule: Rule) -> bool:
        """Ignore nothing."""
        del ident, rule
        return False

    def ignored_codes(self, ident: SiteId) -> list[str]:
        """Ignore nothing."""
        del ident
        return []

    def user_code(self, ident: SiteId) -> None:
        """Know none."""
        del ident

    def bound_directly(self, ident: SiteId) -> str:
        """Return no name."""
        del ident
        return ""
