"""An error in what checks does not reach the user's program: it runs on, and the report says so."""

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
def test_an_error_in_the_check_leaves_the_program_alone(monkeypatch, owner, method):
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


def test_graphs_are_recorded_and_replayed_after_an_error(monkeypatch):
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


def test_what_was_found_before_an_error_is_reported(monkeypatch):
    with syncheck.check(backend="sim") as report:
        x = torch.arange(4.0, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            x.sum()
        monkeypatch.setattr(Session, "launch", broken)
        x.add_(1)
        monkeypatch.undo()
    assert report.codes == ("SYN101",)
    assert len(report.incomplete) == 1


def test_an_interruption_is_the_users_own(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    with syncheck.check(backend="sim") as report:
        x = torch.arange(4.0, device="cuda")
        monkeypatch.setattr(Session, "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x.add_(1)
        monkeypatch.undo()
    assert report.incomplete == ()
