"""The thread that monitors what a rank waits for."""

import pytest

from syncheck.findings import Frame, Location
from syncheck.ranks import watchdog
from syncheck.ranks.watchdog import Watch


class EndedError(Exception):
    """The process would have ended."""


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(watchdog, "PATIENCE", 0.1)
    return []


def new_watch(lines, timeout=0.0):
    def end(status, reason):
        raise EndedError(reason)

    return Watch(timeout, lambda frame: Location(Frame("train.py", 7)), end, lines.append)


def test_a_long_wait_is_printed_once(lines):
    watch = new_watch(lines)
    for what in ("all_reduce", "broadcast"):
        with watch.waits(what, "0"):
            watch.poll()
            watch.poll()
    watch.poll()
    first, second = lines
    assert "has waited 0.1 s for others: all_reduce at train.py:7; --hang-timeout" in first
    assert "broadcast at train.py:7" in second


def test_a_collective_that_completes_is_not_printed(lines):
    watch = new_watch(lines, timeout=60)
    watch.pending["0"] = (lambda: True, 0.0)
    watch.poll()
    assert lines == []


def test_a_wait_beyond_the_timeout_ends_the_job(lines):
    watch = new_watch(lines, timeout=0.2)
    with watch.waits("all_reduce", "0"), pytest.raises(EndedError, match=r"all_reduce took more than 0\.2 seconds"):
        watch.poll()
