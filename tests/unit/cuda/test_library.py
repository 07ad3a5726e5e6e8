"""Described operators on real GPUs."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.library import DescribedOperators
from syncheck.semantics import library as descriptions
from syncheck.semantics.library import describe

SIDE = 7


@pytest.fixture(autouse=True)
def no_descriptions(monkeypatch):
    """Start without descriptions."""
    monkeypatch.setattr(descriptions, "_described", {})
    monkeypatch.setattr(devices, "current_device", lambda: 0)


@pytest.fixture
def side(gpu):
    """Return the id of a second stream."""
    return gpu.cuda.streams.of(0, SIDE)


@pytest.fixture
def acme(gpu):
    """Define operators that copy; without descriptions they would be observed through their parts."""
    with torch.library._scoped_library("acme_unit", "DEF") as library:
        library.define("copy(Tensor x, Tensor(a!) out) -> ()")
        library.impl("copy", lambda x, out: [out.copy_(x), None][1], "CPU")
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x.clone().mul_(2), "CPU")
        yield torch.ops.acme_unit


def launched(gpu, function):
    """Return the launches of a call: operator, stream, and for each access whether it writes."""
    before = len(gpu.monitor.named("launch"))
    function()
    return [(call[2], call[1], [write for *_, write in call[3]]) for call in gpu.monitor.named("launch")[before:]]


def test_a_described_operator_is_reported_as_described(gpu, acme, side):
    describe("acme_unit::copy(x, out)", reads="x", writes="out", then_waits="host")
    x, out = torch.ones(4), torch.zeros(4)
    gpu.current.handle = SIDE
    assert launched(gpu, lambda: acme.copy(x, out)) == [("acme_unit::copy", side, [False, True])]
    assert out.tolist() == [1] * 4
    assert [call[1] for call in gpu.monitor.named("sync_stream")] == [side]


def test_a_new_result_belongs_to_the_current_stream(gpu, acme, side):
    describe("acme_unit::double(x)", reads="x", returns="new")
    x = torch.ones(4)
    gpu.current.handle = SIDE
    results = []
    assert launched(gpu, lambda: results.append(acme.double(x))) == [("acme_unit::double", side, [False, True])]
    assert results[0].tolist() == [2] * 4
    _, made = gpu.monitor.named("allocate")
    assert made[2] == side
    assert "acme.double(x)" in gpu.sites.location(made[-1]).frame.source


def test_an_empty_result_has_no_memory(gpu, acme):
    describe("acme_unit::double(x)", reads="x", returns="new")
    assert acme.double(torch.ones(0)).numel() == 0
    assert gpu.monitor.named("allocate") == []


def test_a_known_result_is_not_announced_again(gpu, acme):
    describe("acme_unit::double(x)", reads="x", returns="new")
    x = torch.ones(4)
    described = DescribedOperators(gpu.cuda.reporter, gpu.cuda.memory, gpu.cuda.library)
    applies, run = described.special(descriptions.operator("acme_unit::double"))
    assert applies((x,), {})
    dispatch = SimpleNamespace(call=lambda tensor: tensor)
    before = len(gpu.monitor.named("allocate"))
    assert run(dispatch, (x,), {}) is x
    assert len(gpu.monitor.named("allocate")) == before


def test_an_operator_error_reaches_the_program_and_nothing_is_reported(gpu, acme):
    describe("acme_unit::copy(x, out)", reads="x", writes="out")

    def fail():
        with pytest.raises(RuntimeError, match="must match"):
            acme.copy(torch.ones(4), torch.ones(3))

    assert "acme_unit::copy" not in [name for name, *_ in launched(gpu, fail)]
    assert gpu.cuda.is_checking
