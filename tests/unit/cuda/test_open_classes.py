"""Replacement classes for torch.Stream and torch.Event, shared by all checks of a process."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.open_classes import elapsed_time, install_open_classes
from syncheck.instrument.patching import Patches


def test_consecutive_and_nested_checks_share_the_same_classes():
    before = torch.Stream, torch.Event
    seen = []
    for _ in range(2):
        outer, inner = Patches(), Patches()
        seen.append(install_open_classes(outer))
        assert (torch.Stream, torch.Event) == seen[0]
        seen.append(install_open_classes(inner))
        inner.undo()
        assert (torch.Stream, torch.Event) == seen[0]
        outer.undo()
        assert (torch.Stream, torch.Event) == before
    assert len(set(seen)) == 1


def event(ident, is_done=True):
    return SimpleNamespace(event_id=ident, query=lambda: is_done)


def test_elapsed_time_works_for_events_of_any_check(monkeypatch):
    monkeypatch.setattr(devices, "milliseconds", lambda start, end: 2.5)
    assert elapsed_time(event(1), event(2)) == 2.5


@pytest.mark.parametrize(
    ("end", "error", "words"),
    [
        (event(0), ValueError, "must be recorded"),
        (event(2, is_done=False), RuntimeError, "must be completed"),
        (event(2), ValueError, "enable_timing=True"),
    ],
)
def test_elapsed_time_raises_torchs_errors(monkeypatch, end, error, words):
    monkeypatch.setattr(devices, "milliseconds", lambda start, end: None)
    with pytest.raises(error, match=words):
        elapsed_time(event(1), end)
