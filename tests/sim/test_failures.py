"""An internal error of syncheck does not affect the user's program: it keeps running, and the report mentions it."""

import pytest
import torch

import syncheck
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.session import Session


def broken(*args, **kwargs):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("owner", "method"), [(Session, "launch"), (Session, "wait_stream"), (Session, "is_pending"), (SiteTable, "here")]
)
def test_an_internal_error_does_not_affect_the_program(monkeypatch, owner, method):
    with syncheck.check(backend="sim") as report:
        side = torch.cuda.Stream()
        x = torch.arange(4.0, device="cuda")
        monkeypatch.setattr(owner, method, broken)
        with torch.cuda.stream(side):
            y = x * 2
        side.wait_stream(torch.cuda.current_stream())
        side.query()
        assert y.tolist() == [0, 2, 4, 6]
        monkeypatch.undo()
    (reason,) = report.incomplete
    assert reason.startswith("syncheck itself failed and stopped checking: KeyError: 'lost' at test_failures.py:")


def test_graphs_are_captured_and_replayed_after_an_internal_error(monkeypatch):
    with syncheck.check(backend="sim") as report:
        x, y = torch.arange(4.0, device="cuda"), torch.zeros(4, device="cuda")
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            monkeypatch.setattr(Session, "launch", broken)
            y.copy_(x)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y.add_(1)
            torch.cuda.current_stream().wait_stream(side)
        assert y.tolist() == [0, 0, 0, 0]
        x.add_(1)
        graph.replay()
        assert y.tolist() == [2, 3, 4, 5]
        monkeypatch.undo()
    assert len(report.incomplete) == 1


def test_findings_from_before_an_internal_error_are_reported(monkeypatch):
    with syncheck.check(backend="sim") as report:
        x = torch.arange(4.0, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            x.sum()
        monkeypatch.setattr(Session, "launch", broken)
        x.add_(1)
        monkeypatch.undo()
    assert report.codes == ("SYN101",)
    assert len(report.incomplete) == 1


def test_a_keyboard_interrupt_is_not_an_internal_error(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with syncheck.check(backend="sim") as report:
        x = torch.arange(4.0, device="cuda")
        monkeypatch.setattr(Session, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x.add_(1)
        monkeypatch.undo()
    assert report.incomplete == ()
