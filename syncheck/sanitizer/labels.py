"""Labels: small numbers that identify the call site and operator of an access in the engine."""

from typing import NamedTuple

from syncheck.hb.ids import MAIN_THREAD, UNKNOWN_SITE, HostId, SiteId


class Label(NamedTuple):
    """Origin of an access.

    Attributes:
        site: the call site.
        operator: the operator's name, such as "aten::add".
        is_replay: whether it is a graph replay.
        is_escape: whether the host only obtained a pointer to the memory.
        host: the thread of the program that submitted or made the access.
    """

    site: SiteId
    operator: str
    is_replay: bool = False
    is_escape: bool = False
    host: HostId = MAIN_THREAD


class Labels:
    """All labels, by number.

    Attributes:
        host: the thread whose calls are currently labeled.
    """

    def __init__(self) -> None:
        self.host = MAIN_THREAD
        self._labels: list[Label] = [Label(UNKNOWN_SITE, "")]
        self._numbers: dict[Label, int] = {}

    def __getitem__(self, number: int) -> Label:
        return self._labels[number]

    def number(self, site: SiteId, operator: str, *, is_replay: bool = False, is_escape: bool = False) -> int:
        """Return the number of a label."""
        label = Label(site, operator, is_replay, is_escape, self.host)
        number = self._numbers.get(label)
        if number is None:
            number = self._numbers[label] = len(self._labels)
            self._labels.append(label)
        return number
