"""Logging of operators: the hot path and its slow reference make the same calls."""

import contextlib
import gc
from functools import partial
from types import FunctionType

import pytest
import torch

from syncheck.cuda import operators
from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.memory import dense_parts
from syncheck.cuda.operators import Operators
from syncheck.hb.footprint import strided
from syncheck.instrument.plan import unique
from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.semantics.waits import HostWait, host_wait
from tests.torch_samples import run_sample, samples_of
from tests.unit.conftest import watched_gpu

FACTS = TorchFacts(lambda tensor: True)
hot = Operators.log


def of_syncheck(function):
    """Return a function that counts as code of syncheck, so that its frames are not call sites."""
    return FunctionType(function.__code__.replace(co_filename=operators.__file__), globals())


@of_syncheck
def log_plainly(self, dispatch, args, kwargs, result):
    self._memory.release_dead()
    self.log_slowly(dispatch, args, kwargs or {}, result, [])


@of_syncheck
def log_hot(self, dispatch, args, kwargs, result):
    if host_wait(dispatch.plan.base, args, kwargs or {}, FACTS) is HostWait.NEVER:
        hot(self, dispatch, args, kwargs, result)
    else:  # on a GPU a callback arrives here, and calls with callbacks bypass the hot path
        log_plainly(self, dispatch, args, kwargs, result)


class Comparable:
    """Normalizes calls for comparison: allocations are counted from 0, views become bytes, call sites become lines."""

    def __init__(self, gpu):
        self.sites, self.lines, self.views = gpu.cuda.reporter.sites, {}, {}
        self.announce = gpu.monitor.session.view
        gpu.monitor.session.view = self.view

    def view(self, *shape, is_partial=False):
        ident = self.announce(*shape, is_partial=is_partial)
        self.views[ident] = strided(*shape[:4], is_partial=is_partial)
        return ident

    def calls(self, calls):
        self.allocations = {}
        return [described for call in calls if (described := self.described(*call)) is not None]

    def described(self, name, *args):
        match name, args:
            case "launch", (stream, operator, accesses, site, *_):
                accesses = [(self.allocation(a), self.views[view], write) for a, view, write in unique(accesses)]
                return name, stream, operator, accesses, self.line(site)
            case "allocate", (allocation, home, n_bytes, pool, site):
                return name, self.allocation(allocation), home, n_bytes, pool, self.line(site)
            case "free", (allocation, _):
                return name, self.allocation(allocation)
            case "sync_stream", (stream, site, explicit):
                return name, stream, self.line(site), explicit
            case "view", _:
                return None
        return name, *args

    def allocation(self, ident):
        return self.allocations.setdefault(ident, len(self.allocations))

    def line(self, site):
        if site not in self.lines:
            frame = self.sites.location(site).frame
            self.lines[site] = frame.path, frame.line
        return self.lines[site]


@pytest.fixture
def no_collections():
    """Disable garbage collection so that no memory is freed at a random moment."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def calls_in(current, log, programs, monkeypatch, handles=(0,)):
    """Return the calls that each program makes, by program name."""
    monkeypatch.setattr(Operators, "log", log)
    calls = {}
    with watched_gpu(current) as gpu:
        comparable = Comparable(gpu)
        for current.handle in handles:
            torch.ones(1)
        for name, program in programs:
            gpu.cuda.flush_calls()
            gpu.monitor.calls.clear()
            torch.manual_seed(0)
            program()
            gpu.cuda.flush_calls()
            calls[name] = comparable.calls(gpu.monitor.calls)
    return calls


def samples(table):
    for entry in table:
        for sample in samples_of(entry, "cpu", 1):
            yield (entry.name, entry.variant_test_name), partial(run_if_possible, entry, sample)


def run_if_possible(entry, sample):
    # some need a GPU, or have no real result to differentiate
    with contextlib.suppress(RuntimeError, NotImplementedError, AssertionError):
        run_sample(entry, sample)


@pytest.mark.filterwarnings("ignore")
def test_the_hot_path_and_the_slow_path_make_the_same_calls_for_every_operator(
    on_cpu, monkeypatch, no_collections, operator_table
):
    plain = calls_in(on_cpu, log_plainly, samples(operator_table), monkeypatch)
    fast = calls_in(on_cpu, log_hot, samples(operator_table), monkeypatch)
    assert len(plain) > 600
    assert sum(any(name == "launch" for name, *_ in calls) for calls in plain.values()) > 500
    assert plain.keys() == fast.keys()
    for name, calls in plain.items():
        assert (name, fast[name]) == (name, calls)


def in_lists():
    many, more = [torch.ones(3) for _ in range(10)], [torch.ones(3, 2) for _ in range(10)]
    for _ in range(2):
        torch._foreach_add_(many, 1)
        torch._foreach_add_(many, torch._foreach_neg(many))
        torch._foreach_zero_(more)
    torch._foreach_mul_(many[:3], many[3:6])
    torch._foreach_copy_(many, list(reversed(many)))
    torch.cat([*many, torch.empty(0)])
    torch.stack(more[:2]).unbind()


def in_views():
    x = torch.zeros(6, 8)
    x[1:, ::2].add_(1)
    x.t()[3].mul_(x.t()[4])
    torch.add(x[:2], x[2:4], out=x[4:])
    x.expand(2, 6, 8).sum((0, 1))
    x[:, 1] = 3
    x.as_strided((3,), (2,), 5).copy_(torch.arange(3))
    x.view(torch.int32).bitwise_not_()


def with_empty_and_scalar_tensors():
    nothing, number = torch.empty(0, 3), torch.tensor(2.0)
    (nothing + 1).sum()
    torch.ones(4) * number
    number.add_(number)
    torch.ones(4).addcmul_(torch.ones(4), torch.ones(4), value=2)
    torch.where(torch.ones(4) > 0, number, 0.0)


def with_several_results():
    values, indices = torch.rand(5, 6).max(1)
    torch.zeros(6).index_add_(0, indices, values)
    torch.var_mean(torch.rand(5, 6), 0)
    torch.nn.functional.batch_norm(torch.rand(3, 4), torch.zeros(4), torch.ones(4), training=True)
    torch._transform_bias_rescale_qkv(torch.randn(2, 3, 24), torch.randn(24), 2)
    torch.rand(9).split(2)
    torch.unsafe_chunk(torch.rand(9), 3)


def in_training():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(2):
        loss = model(torch.rand(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.inference_mode():
        model(torch.rand(3, 4))


def in_sparse_tensors():
    sparse = torch.eye(3).to_sparse()
    (sparse @ torch.ones(3, 3)).sum()
    torch.eye(3).to_sparse_csr() @ torch.ones(3)


PROGRAMS = [
    in_lists, in_views, with_empty_and_scalar_tensors, with_several_results, in_training, in_sparse_tensors,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    "handles", [(0,), (0, 7), (7, 0)], ids=["one stream", "a side stream", "back on the default one"]
)
def test_both_paths_agree_on_composed_programs_with_one_or_more_streams(on_cpu, monkeypatch, no_collections, handles):
    programs = [(program.__name__, program) for program in PROGRAMS]
    in_training()  # the first optimizer of a process lives longer
    plain = calls_in(on_cpu, log_plainly, programs, monkeypatch, handles)
    fast = calls_in(on_cpu, log_hot, programs, monkeypatch, handles)
    for name, calls in plain.items():
        assert any(call[0] == "launch" for call in calls)
        assert (name, fast[name]) == (name, calls)


# -- building blocks of both paths


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_tensor_consists_of_its_dense_parts():
    x = torch.eye(3)
    assert [part is x for part in dense_parts(x)] == [True]
    coo, csr, csc = x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc()
    assert [tuple(part.shape) for part in dense_parts(coo)] == [(2, 3), (3,)]
    assert [tuple(part.shape) for part in dense_parts(csr)] == [(4,), (3,), (3,)]
    assert [tuple(part.shape) for part in dense_parts(csc)] == [(4,), (3,), (3,)]
    assert dense_parts(torch._efficientzerotensor(3)) == []
    assert dense_parts(x.to_mkldnn()) == []


def test_each_operator_is_planned_once(gpu):
    operators = gpu.cuda.operators
    first = operators.plan(torch.ops.aten.add.Tensor)
    torch.ones(2).add(torch.ones(2))
    assert operators.plans[id(torch.ops.aten.add.Tensor)] is first
    assert first.plan.name == "aten::add"
    assert not first.special
    assert operators.plan(torch.ops.aten.copy_.default).special


def test_an_operator_is_placed_between_its_inner_callbacks(gpu):
    """A copy on its own stream waits before and records an event after."""
    reporter, streams = gpu.cuda.reporter, gpu.cuda.streams
    dispatch, x = gpu.cuda.operators.plan(torch.ops.aten.neg_.default), torch.ones(4)
    side, (before, after) = streams.of(0, 7), (reporter.next_event(), reporter.next_event())
    for event in (before, after):
        reporter.monitor.event(event, 0, timing=False)
    callbacks = [
        Callback(Kind.RECORD, before, 1),
        Callback(Kind.WAIT, before, side),
        Callback(Kind.RECORD, after, side),
    ]
    gpu.monitor.calls.clear()
    gpu.cuda.operators.log_slowly(dispatch, (x,), {}, x, callbacks)
    assert [call[:3] for call in gpu.monitor.calls if call[0] in {"record", "wait", "launch"}] == [
        ("record", before, 1),
        ("wait", before, side),
        ("launch", side, "aten::neg_"),
        ("record", after, side),
    ]


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (lambda x: x[x > 0], ["sync_stream", "launch"]),  # the host needs the size of the result
        (lambda x: x.sum().item(), ["launch", "sync_stream"]),
    ],
)
def test_the_host_waits_before_or_after_the_kernel(gpu, monkeypatch, run, names):
    x = torch.ones(4)
    monkeypatch.setattr(Operators, "log", log_plainly)
    gpu.cuda.host.buffers[0] = None  # without a buffer, reading a number from host memory is not logged
    gpu.monitor.calls.clear()
    run(x)
    del gpu.cuda.host.buffers[0]
    assert [call[0] for call in gpu.monitor.calls if call[0] in {"launch", "sync_stream"}][-2:] == names


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_a_wait_for_a_functional_collective_touches_no_memory(gpu):
    x = torch.ones(4)
    dispatch = gpu.cuda.operators.plan(torch.ops._c10d_functional.wait_tensor.default)
    before = len(gpu.monitor.named("launch"))
    gpu.cuda.operators.log_slowly(dispatch, (x,), {}, x, [])
    assert len(gpu.monitor.named("launch")) == before
