"""Findings with one cause."""

import pytest

from syncheck.hb.cells import AccessRecord
from syncheck.hb.footprint import dense
from syncheck.hb.ids import NamedKind
from syncheck.hb.memory import FreedAccess
from syncheck.sanitizer import causes, misuse
from syncheck.sanitizer.labels import Label
from syncheck.sanitizer.messages import StreamInfo, View
from tests.unit.sanitizer.program import Text, new_collector


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_a_tensor_joins_the_tensors_of_its_two_lines(order):
    """One is freed with the first, and used with the second; all three are one finding in any order."""
    collector = new_collector()
    collector.names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 3)}
    collector.names.views.append(View((4,), 4, "float32"))
    places = ((20, 30), (21, 31), (21, 30))
    for allocation in order:
        used_at, freed_at = places[allocation]
        use = AccessRecord(2, 4096 | 2, 5, dense(0, 16), is_write=False)
        freed = FreedAccess(allocation + 7, 1, use, 6, 7, 16)
        label, sites = Label(used_at, "aten::sum"), (10 + allocation, freed_at, 40)
        collector.add(misuse.reuse(freed, 0, label, sites, StreamInfo(0, 7, 3)), allocation)
    assert len(collector.findings(Text())) == 1


@pytest.mark.parametrize(
    ("places", "edited"),
    [(((22, 30), (20, 30), (21, 31)), [20, 22]), (((20, 31), (20, 30), (21, 32)), [20])],
    ids=["freed at one line", "used at one line"],
)
def test_two_tensors_freed_or_used_at_one_line_are_one_finding(places, edited):
    collector = new_collector()
    names = collector.names
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 3)}
    names.given |= {(NamedKind.ALLOCATION, 9): "x", (NamedKind.ALLOCATION, 8): "y", (NamedKind.ALLOCATION, 7): "z"}
    names.views.append(View((4,), 4, "float32"))
    for allocation, (used_at, freed_at) in zip((9, 8, 7), places, strict=True):
        use = AccessRecord(2, 4096 | 2, 5, dense(0, 16), is_write=False)
        freed = FreedAccess(allocation, 1, use, 6, 7, 16)
        label, places_of_life = Label(used_at, "aten::sum"), (10 + allocation, freed_at, 40)
        collector.add(misuse.reuse(freed, 0, label, places_of_life, StreamInfo(0, 7, 3)), allocation)
    both, other = collector.findings(Text())
    assert (both.location.frame.line, other.location.frame.line) == (20, 21)
    named = both.message + " ".join(location.message for location in both.related)
    assert "`x` (4 float32, 16 bytes) may be reused" in named
    assert "`y` (4 float32, 16 bytes) may be reused" in named
    assert [edit.line for edit in both.fix.edits] == edited


def test_a_call_site_has_a_line():
    assert causes.line_of(7, Text()) == ("program.py", 7)
