"""Classes in place of torch.Stream and torch.Event: the same ones for all checks of a process."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.open_classes import elapsed_time, install_open_classes
from syncheck.instrument.patching import Patches


def test_checks_one_after_the_other_and_one_inside_another_have_the_same_classes():
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


def test_the_time_between_events_of_any_check(monkeypatch):
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
def test_where_there_is_no_time_the_errors_are_torchs(monkeypatch, end, error, words):
    monkeypatch.setattr(devices, "milliseconds", lambda start, end: None)
    with pytest.raises(error, match=words):
        elapsed_time(event(1), end)
