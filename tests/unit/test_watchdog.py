"""The thread that monitors what a rank waits for."""

import time

import pytest

from syncheck.findings import Frame, Location
from syncheck.ranks import watchdog
from syncheck.ranks.watchdog import Watch


class EndedError(Exception):
    """The process would have ended."""


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(watchdog, "PATIENCE", 0.0)
    monkeypatch.setattr(watchdog, "_POLL_INTERVAL", 0.01)
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
    assert "has waited 0 s for others: all_reduce at train.py:7; --hang-timeout" in first
    assert "broadcast at train.py:7" in second


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_collective_that_the_host_does_not_wait_for_is_not_printed(lines, is_complete):
    watch = new_watch(lines, timeout=1e9)
    watch.pending["0"] = (lambda: is_complete, time.monotonic() - 60)
    watch.poll()
    assert lines == []


def test_a_wait_beyond_the_timeout_ends_the_job(lines):
    watch = new_watch(lines, timeout=0.001)
    with watch.waits("all_reduce", "0"), pytest.raises(EndedError, match=r"all_reduce took more than 0\.001 seconds"):
        watch.poll()
