"""Passing the program's names for streams, events and tensors to the monitor."""

import pytest
import torch

from syncheck.findings import EditKind
from syncheck.instrument.namer import Namer
from syncheck.instrument.sites import SiteTable
from syncheck.rules import redundant_wait
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.fixes import PendingEdit, PendingFix
from syncheck.sanitizer.messages import EventCode, StreamCode, TensorCode


class Monitor:
    def __init__(self):
        self.names, self.lines, self.parts = {}, {}, {}

    def name(self, kind, ident, text):
        self.names[str(kind), ident] = text

    def name_at(self, kind, ident, text, path, line):
        self.lines[str(kind), ident] = text

    def name_view(self, allocation, view, text):
        self.parts[allocation, view] = text


class Identities:
    """Identities in which strings are streams and events, and tensors are allocation 9."""

    def allocation_of(self, tensor):
        return 9

    def stream_of(self, value):
        return 2 if value == "a stream" else 0

    def event_of(self, value):
        return 3 if value == "an event" else 0


@pytest.fixture
def parts():
    monitor, sites, called = Monitor(), SiteTable(), []
    return Namer(lambda: monitor, sites, Identities(), lambda: called.append(1)), monitor, sites, called


def finding(site, *code, **kwargs):
    fix = PendingFix((PendingEdit(EditKind.INSERT_BEFORE, site, code),)) if code else None
    return PendingFinding(redundant_wait.RULE, site, {"reason": ("",)}, fix=fix, **kwargs)


def test_a_new_object_is_named_by_the_variable_it_is_bound_to(parts):
    namer, monitor, sites, _ = parts
    copy = sites.here()
    namer.name_new("stream", 1, copy)
    assert monitor.names == {("stream", 1): "copy"}


def test_objects_of_a_comprehension_are_numbered(parts):
    namer, monitor, sites, _ = parts
    made = [sites.here() for _ in range(2)]
    for number, site in enumerate(made, 1):
        namer.name_new("stream", number, site)
    assert monitor.names == {("stream", 1): "made[0]", ("stream", 2): "made[1]"}


def test_an_unbound_object_has_no_name(parts):
    namer, monitor, sites, _ = parts
    namer.name_new("stream", 1, sites.here())
    assert monitor.names == {}


def test_the_tensor_of_a_finding_is_named_by_its_variable(parts):
    namer, monitor, sites, called = parts
    batch = torch.ones(1)
    namer.name_findings([finding(sites.here(), allocation=9)])
    assert monitor.names == {("allocation", 9): "batch"}
    assert called == [1]
    del batch


def test_a_proxy_among_the_variables_is_not_asked_for_its_class(parts):
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError("outside of a request")

    namer, monitor, sites, _ = parts
    proxy, x = Proxy(), torch.ones(1)
    namer.name_findings([finding(sites.here(), allocation=9, extent=(0, 4), view=5)])
    assert monitor.names == {("allocation", 9): "x"}
    del proxy, x


def test_the_tensor_at_the_bytes_of_a_finding_gives_the_name(parts):
    namer, monitor, sites, _ = parts
    weight, bias = torch.ones(6).split([4, 2])
    here = sites.here()
    namer.name_findings([finding(here, allocation=9, view=1, extent=(16, 24))])
    assert monitor.parts == {(9, 1): "bias"}
    namer.name_findings([finding(here, allocation=9, view=2, extent=(0, 8))])
    assert monitor.parts == {(9, 1): "bias", (9, 2): "weight"}
    del weight, bias


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_the_values_of_a_sparse_tensor_have_its_name(parts, layout):
    namer, monitor, sites, _ = parts
    rows = torch.eye(6).to_sparse(layout=layout)
    namer.name_findings([finding(sites.here(), allocation=9, view=1, extent=(0, 24))])
    assert monitor.parts == {(9, 1): "rows"}
    del rows


def test_bytes_outside_of_any_variable_have_no_name(parts):
    namer, monitor, sites, _ = parts
    weight = torch.ones(6)[:4]
    namer.name_findings([finding(sites.here(), allocation=9, view=1, extent=(16, 24))])
    assert (monitor.parts, monitor.names) == ({(9, 1): ""}, {("allocation", 9): "weight"})
    del weight


def test_objects_mentioned_by_a_fix_are_named_at_its_line(parts):
    namer, monitor, sites, _ = parts
    side, done, batch = "a stream", "an event", torch.ones(1)
    namer.name_findings([finding(sites.here(), StreamCode(2), " ", EventCode(3), " ", TensorCode(9))])
    assert monitor.lines == {("stream", 2): "side", ("event", 3): "done", ("allocation", 9): "batch"}
    del side, done, batch


def test_a_freed_allocation_is_named_by_its_replacement(parts):
    namer, monitor, sites, called = parts
    batch = torch.ones(1)
    for successor, names in ((0, {}), (9, {("allocation", 5): "batch"})):
        called.clear()
        namer.name_findings([gone := finding(sites.here(), TensorCode(5), allocation=5, successor=successor)])
        assert monitor.lines == names
    assert (called, gone.successor) == ([], 0)
    del batch


def test_a_finding_that_may_be_superseded_is_not_announced(parts):
    namer, _, sites, called = parts
    namer.name_findings([finding(sites.here(), superseded=lambda: True)])
    assert called == []
