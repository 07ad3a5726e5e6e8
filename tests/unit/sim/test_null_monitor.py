"""A monitor that ignores all calls."""

import pytest

from syncheck.sim.null_monitor import NoSites, NullMonitor


def test_all_calls_are_accepted_and_queries_answered():
    monitor = NullMonitor()
    monitor.launch(1, "aten::add", [], 0)
    assert monitor.view(0, (1,), (1,), 4, "float32") == 0
    assert monitor.is_pending("stream", 1) is False
    assert monitor.capturing(1) is False
    assert monitor.capture_end(1) == ()


@pytest.mark.parametrize("name", ["unknown", "_private", "__deepcopy__"])
def test_unknown_calls_are_rejected(name):
    with pytest.raises(AttributeError):
        getattr(NullMonitor(), name)


def test_no_sites_has_no_places_or_names():
    sites = NoSites()
    assert sites.here() == 0
    assert sites.location(5).frame.line == 0
    assert (sites.bound(5), sites.bound_directly(5), sites.ignored_codes(5)) == ("", "", [])
    assert sites.lines_of(5)[0].number == 0
    assert not sites.ignored(5, None)
