"""The native recorder agrees with the dispatch mode and leaves to it what it cannot handle.

CPU tensors stand in for tensors of `cuda:0`, as in the tests of the mode.
"""

import functools
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import syncheck
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.mode import WatchMode
from syncheck.cuda.native_recorder import description
from syncheck.cuda.waiting_calls import WaitingCalls
from syncheck.findings import Frame
from syncheck.instrument.plan import plan_of
from syncheck.instrument.torch_internals import storage_key
from tests.unit.conftest import watched_gpu

SAMPLES = {}
INQUIRIES = {"view", "holds_used_memory"}
"""Calls that change nothing."""


class Holder(torch.Tensor):
    """A tensor without memory of its own that wraps another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        result = func(*(arg.inner if isinstance(arg, cls) else arg for arg in args), **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def sample(function):
    SAMPLES[function.__name__] = function
    return function


@sample
def arithmetic():
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    for _ in range(3):
        c = a @ b + 1
        c.add_(a).mul_(2)
        c[1:, ::2].sub_(1)
        kept = c.t().contiguous()
    return a, b, c, kept


@sample
def lists():
    many = [torch.ones(n) for n in range(1, 12)]
    torch._foreach_add_(many, 1.0)
    torch._foreach_mul_(many, many)
    joined = torch.cat(many)
    first, second = joined.split([30, 36])
    return many, torch.stack([first[:8], second[:8]])


@sample
def frames_between_the_program_and_an_operator():
    def numbers():
        for number in range(3):
            yield torch.ones(4) * number

    class Doubled:
        def __add__(self, other):
            return other * 2

    kept = list(numbers())
    kept += sorted(numbers(), key=lambda each: each.neg().dim())  # C code calls the function
    kept += list(map(torch.neg, kept))
    kept.append(functools.reduce(torch.add, kept[:3]))
    kept.append(Doubled() + kept[0])
    exec("kept.append(torch.ones(2) + 1)")
    kept.append(nn.Sequential(nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU())))(torch.ones(3)))
    return kept


@sample
def several_results():
    a = torch.randn(8, 8)
    values, places = a.max(dim=1)
    parts = torch.ops.aten.unsafe_chunk(a, 3)
    return a, values, places, parts


@sample
def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    x, y = torch.randn(5, 8), torch.randint(4, (5,))
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    return model, optimizer, loss, model(x)


@sample
def kinds():
    a = torch.randn(6)
    half = a.half()
    a.copy_(half)
    same = a.to(torch.float32)
    torch.add(a, 1, out=same)
    return half, a, same, torch.empty(0), torch.zeros(3).double()


@sample
def mixed_precision():
    torch.manual_seed(0)
    layer = nn.Linear(8, 8)
    x = torch.randn(4, 8)
    for _ in range(2):
        layer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x).float().square().mean()
        y.backward()
    return layer, x, y


@sample
def changed_in_place():
    w = torch.randn(4, requires_grad=True)
    x = w * 2
    x.pow_(2)
    x.sinh_()
    x.sum().backward()
    doubled = torch.randn(4, dtype=torch.complex64).conj() * 2
    return w, x, doubled


@sample
def in_functorch():
    x = torch.randn(3, 4)
    return torch.func.vmap(lambda row: row * 2 + 1)(x), torch.func.grad(lambda v: v.square().sum())(x)


@sample
def forward_derivatives():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.randn(4, 4), torch.randn(4, 4))
        y = (x.sin() * x).matmul(x)
        y.add_(x)
        value, tangent = forward_ad.unpack_dual(y)
        return x, value * 2, tangent * 3


@sample
def inference():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Dropout(), nn.Linear(16, 24)).eval()
    with torch.inference_mode():
        q, k, v = layers(torch.randn(2, 5, 8)).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return layers, mixed.reshape(-1).contiguous(), torch.matmul(mixed[0], mixed[1].T)


@pytest.fixture
def native(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as watched:
        watched.extension = recorder
        torch.ones(1)  # the first operator goes to the mode, which determines the only stream
        yield watched


@pytest.mark.parametrize(
    ("operator", "is_native"),
    [
        ("add.Tensor", True),
        ("t.default", True),
        ("_local_scalar_dense.default", True),
        ("cudnn_batch_norm.default", True),
        ("nonzero.default", False),  # the host waits for the size
        ("_pin_memory.default", False),
        ("index_put_.default", False),
        ("index_copy_.default", False),  # rows selected by an index
    ],
)
def test_only_operators_that_neither_wait_nor_record_are_recorded_natively(operator, is_native):
    name, _, overload = operator.partition(".")
    func = getattr(getattr(torch.ops.aten, name), overload)
    assert (description(DispatchPlan(func, plan_of(func), None), SimpleNamespace(specials={})) is not None) == is_native


def operators_run_by_mode(monkeypatch):
    """Return a list that collects the names of the operators that the mode runs from now on."""
    names = []
    original = WatchMode.__torch_dispatch__

    def dispatch(self, func, types, args=(), kwargs=None):
        names.append(str(func))
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(WatchMode, "__torch_dispatch__", dispatch)
    return names


def last_accesses(watched):
    """Return the live memory: for each access its size and bytes, and the stream and line of the last one."""
    watched.cuda.flush_calls()
    sizes, last, gone = {}, {}, set()
    for name, *rest in watched.monitor.calls:
        if name == "allocate":
            sizes[rest[0]] = rest[2]
        elif name == "launch":
            for access in rest[2]:
                last[tuple(access)] = (rest[1], watched.sites.location(rest[3]).frame.line)
        elif name == "free":
            gone.add(rest[0])
    living = sorted({allocation for allocation, _, _ in last} - gone)
    return {
        (living.index(allocation), sizes[allocation], watched.monitor.views[view], is_write): who
        for (allocation, view, is_write), who in last.items()
        if allocation not in gone
    }


def watched_accesses(current, program, extension=None):
    with watched_gpu(current, extension=extension) as watched:
        torch.ones(1)
        program()  # the first run creates plans
        kept = program()
        found = last_accesses(watched)
        assert kept
        return found, watched.report().summary.operators


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch uses it for some derivatives
@pytest.mark.parametrize("name", SAMPLES)
def test_the_recorder_records_the_same_accesses_as_the_mode(name, on_cpu, recorder):
    expected = watched_accesses(on_cpu, SAMPLES[name])
    found = watched_accesses(on_cpu, SAMPLES[name], recorder)
    assert found == expected
    assert recorder.n_recorded() > 1


def test_the_mode_is_bypassed_for_operators_the_recorder_handles(native, monkeypatch):
    SAMPLES["arithmetic"]()
    names = operators_run_by_mode(monkeypatch)
    SAMPLES["arithmetic"]()
    assert names == []


def test_profiler_annotations_do_not_reach_the_mode(native, monkeypatch):
    def marked():
        with torch.profiler.record_function("step"):
            torch.ones(4).neg_()

    marked()
    names = operators_run_by_mode(monkeypatch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        marked()
    assert names == []
    assert "step" in {event.key for event in profile.key_averages()}


def test_composite_operators_are_decomposed_without_the_mode(native, monkeypatch):
    SAMPLES["inference"]()
    names = operators_run_by_mode(monkeypatch)
    SAMPLES["inference"]()
    made_of_others = {"linear", "layer_norm", "dropout", "chunk", "scaled_dot_product_attention", "reshape", "matmul"}
    assert not made_of_others & {name.split(".")[1] for name in names}


def test_a_subclass_in_inference_mode_goes_to_the_mode(native, monkeypatch):
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    with torch.inference_mode():
        plain = nn.functional.linear(x, weight)
        names = operators_run_by_mode(monkeypatch)
        assert torch.equal(nn.functional.linear(Holder(x), weight), plain)
    assert "aten.linear.default" in names


def test_a_race_with_a_second_stream_is_found_in_natively_recorded_memory(native):
    torch.zeros(4, 4)
    n_before = native.extension.n_recorded()
    a = torch.zeros(4, 4)
    assert native.extension.n_recorded() == n_before + 1
    native.cuda.streams.of(0, 7)  # the second stream
    native.current.handle = 7
    total = a.sum()
    del total
    (finding,) = native.report().findings
    assert finding.rule.code == "SYN101"
    assert isinstance(finding.location.frame, Frame)
    assert finding.location.frame.source.strip() == "total = a.sum()"
    assert finding.related[0].frame.source.strip() == "a = torch.zeros(4, 4)"


def test_calls_that_wait_keep_their_place_among_the_operators(native, monkeypatch):
    monkeypatch.setattr(WaitingCalls, "may_wait", lambda self, n_findings: True)
    reporter = native.cuda.reporter
    a = torch.ones(4).neg_().relu_()  # the first call of an operator goes to the mode
    native.cuda.streams.of(0, 7)
    native.cuda.flush_calls()
    n_before = len(native.monitor.calls)
    a.neg_()
    reporter.notify("clock", 1, 0)
    for _ in range(3):
        torch.ones(4)  # allocated and freed between the calls, so nothing else need know of it
    assert reporter.defer(("sync_device", 0, 0))
    a.relu_()
    assert [call[0] for call in native.monitor.calls[n_before:] if call[0] not in INQUIRIES] == []
    native.cuda.flush_calls()
    names = [call[0] for call in native.monitor.calls[n_before:]]
    assert [name.replace("launches_elided", "launch") for name in names if name not in INQUIRIES] == [
        "launch", "clock", "launch", "sync_device", "launch",
    ]  # fmt: skip


def test_calls_are_made_at_once_where_memory_may_be_reused_too_early(native, monkeypatch):
    monkeypatch.setattr(WaitingCalls, "may_wait", lambda self, n_findings: True)
    reporter = native.cuda.reporter
    assert not reporter.defer(("clock", 1, 0))  # a single stream
    native.cuda.streams.of(0, 7)
    assert reporter.defer(("clock", 1, 0))
    native.cuda.memory.freed_shared = True
    assert not reporter.defer(("clock", 2, 0))


def test_memory_used_by_one_stream_stays_on_the_native_path_despite_other_streams(native, monkeypatch):
    a = torch.zeros(4)
    native.cuda.streams.of(0, 7)

    def work():
        b = a.add_(1) * 2
        native.current.handle = 7
        c = torch.ones(4).mul_(3)
        native.current.handle = 0
        b.sub_(1)
        return c

    work()  # the first run creates plans
    names = operators_run_by_mode(monkeypatch)
    c = work()
    assert names == []
    native.cuda.flush_calls()
    main, side = native.cuda.streams.of(0, 0), native.cuda.streams.of(0, 7)
    launches = [(call[1], call[2]) for call in native.monitor.named("launch")][-5:]
    assert launches == [
        (main, "aten::add_"), (main, "aten::mul"), (side, "aten::ones"), (side, "aten::mul_"), (main, "aten::sub_"),
    ]  # fmt: skip
    assert native.report().findings == ()
    assert c.tolist() == [3.0] * 4


@pytest.mark.parametrize("is_adopted", [False, True])
def test_memory_used_by_several_streams_goes_to_the_mode(native, monkeypatch, is_adopted):
    native.cuda.streams.of(0, 7)
    a = torch.zeros(4)
    assert native.cuda.memory.allocation_of(a) if is_adopted else True
    native.current.handle = 7
    names = operators_run_by_mode(monkeypatch)
    a.add_(1)
    native.current.handle = 0
    b = torch.ones(4)
    a.sub_(b)
    b.sub_(1)
    assert names == ["aten.add_.Tensor", "aten.sub_.Tensor"]
    assert [finding.rule.code for finding in native.report().findings] == ["SYN103", "SYN103"]


def make_wait(native, first, second):
    with native.cuda.reporter.locked_monitor() as monitor:
        monitor.wait_stream(native.cuda.streams.of(0, second), native.cuda.streams.of(0, first), 0)


def test_a_stream_that_waits_for_all_others_becomes_the_sole_owner_of_memory(native, monkeypatch):
    native.cuda.streams.of(0, 7)
    a = torch.zeros(8)
    native.current.handle = 7
    make_wait(native, 0, 7)
    a[:4].add_(1).sub_(1).mul_(1)
    names = operators_run_by_mode(monkeypatch)
    a[:4].sub_(1)
    a[4:].mul_(2)
    native.current.handle = 0
    make_wait(native, 7, 0)
    a[:4].sub_(1)
    assert names == ["aten.sub_.Tensor"]
    a[4:].mul_(2)
    a.add_(1)
    assert names == ["aten.sub_.Tensor"]
    native.current.handle = 7
    a[:4].sub_(1)
    assert names == ["aten.sub_.Tensor"] * 2
    report = native.report()
    assert [finding.rule.code for finding in report.findings] == ["SYN103"]
    assert report.findings[0].related[0].frame.source.strip() == "a.add_(1)"


def test_a_stream_that_has_not_waited_for_all_others_does_not_own_memory(native, monkeypatch):
    native.cuda.streams.of(0, 7)
    a = torch.zeros(8)
    native.current.handle = 7
    make_wait(native, 0, 7)
    a[:4].sub_(1)
    native.current.handle = 0
    make_wait(native, 7, 0)
    native.current.handle = 7
    a[4:].mul_(2)
    native.current.handle = 0
    names = operators_run_by_mode(monkeypatch)
    a[:4].sub_(1)
    a[4:].mul_(2)
    assert names == ["aten.sub_.Tensor", "aten.mul_.Tensor"]
    assert [finding.rule.code for finding in native.report().findings] == ["SYN103"]


@pytest.mark.parametrize(
    "forget",
    [lambda gpu: gpu.cuda.memory.owners.clear(), lambda gpu: gpu.cuda.captures.begin()],
    ids=["replay", "capture"],
)
def test_memory_that_a_graph_may_use_goes_to_the_mode(native, monkeypatch, forget):
    native.cuda.streams.of(0, 7)
    a = torch.zeros(8)
    native.current.handle = 7
    make_wait(native, 0, 7)
    a.sub_(1)
    forget(native)
    names = operators_run_by_mode(monkeypatch)
    a.sub_(1)
    assert names == ["aten.sub_.Tensor"]


def test_reuse_of_memory_in_use_on_another_stream_is_reported(native):
    other, site = native.cuda.streams.of(0, 7), native.cuda.reporter.site
    a = torch.zeros(64)
    native.current.handle = 7
    a.add_(1)
    native.current.handle = 0
    del a
    torch.zeros(64)  # allocated, written and freed, all in C++
    torch.zeros(64)
    (race, reuse) = native.report().findings
    assert (race.rule.code, reuse.rule.code) == ("SYN103", "SYN201")
    assert reuse.related[-1].frame.source.strip().startswith("torch.zeros(64)  # allocated")
    assert other
    assert site


def test_a_gradient_that_crosses_streams_is_protected(native):
    """`InputBuffer::add` calls `record_stream` for the stream of the node that consumes it."""
    other = native.cuda.streams.of(0, 7)
    made = []

    class SideStreamFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            native.current.handle = 7  # the engine makes the node's own stream current
            made.append(gradient * 2)
            native.current.handle = 0
            return gradient

    x = torch.ones(4, requires_grad=True)
    native.cuda.launches.gradients.begin(native.cuda.memory.next_ident())
    native.cuda.reporter.backward_site = native.cuda.reporter.site()
    (SideStreamFunction.apply(x) * 3).sum().backward()
    native.cuda.reporter.backward_site = 0
    assert [call[3] for call in native.monitor.named("record_stream")] == [other]


def test_native_recording_stops_when_the_program_starts_threads_and_uses_streams(native, monkeypatch):
    a = torch.zeros(4)
    native.cuda.streams.of(0, 7)
    a.add_(1)
    names = operators_run_by_mode(monkeypatch)
    native.cuda.reporter.follow_threads(native.monitor)
    a.add_(1)
    assert names == ["aten.add_.Tensor"]
    kept = {call[1] for call in native.monitor.named("allocate")}
    del a
    native.cuda.flush_calls()
    assert native.monitor.named("free")[-1][1] in kept


def test_only_pinned_buffers_go_to_the_mode(native, monkeypatch):
    a, buffer = torch.zeros(4), torch.zeros(4)
    a.add_(1)
    native.cuda.host.buffers[storage_key(buffer.untyped_storage())] = None
    names = operators_run_by_mode(monkeypatch)
    a.add_(1)
    assert names == []
    buffer.add_(1)
    assert names == ["aten.add_.Tensor"]
    native.cuda.host.buffers.clear()


def test_recorded_calls_reach_the_session_before_the_host_waits(native, recorder):
    torch.ones(4).neg_()  # creates plans
    torch.ones(4).neg_()
    native.cuda.streams.before_wait()
    assert recorder.has_calls()  # with a single stream the wait itself makes a flush unnecessary
    native.cuda.streams.of(0, 7)
    a = torch.ones(4).neg_()
    assert recorder.has_calls()
    native.cuda.streams.before_wait()
    assert not recorder.has_calls()
    assert native.monitor.calls[-1][2] == "aten::neg_"
    del a


def test_accesses_completed_by_a_host_wait_are_elided(native):
    native.cuda.reporter.call_buffer.condenses = True
    x, w = torch.ones(4), torch.ones(4)

    def step():
        y = x * w
        torch.nonzero(w)  # the host waits for its size
        return y

    for _ in range(3):
        kept = step()
    native.cuda.flush_calls()
    native.monitor.calls.clear()
    kept = step()
    other = native.cuda.streams.of(0, 7)
    native.current.handle = 7
    x.add_(1)
    kept.add_(1)
    assert native.report().findings == ()
    assert not any(call[3] for call in native.monitor.named("launch") if call[2] == "aten::mul")
    assert other


def test_a_wait_for_another_stream_completes_nothing(native):
    x = torch.ones(4)
    native.monitor.calls.clear()
    x.mul_(x)
    for act in native.cuda.reporter.before_wait:
        act(99)
    native.cuda.flush_calls()
    assert len(native.monitor.named("launch")[-1][3]) == 2


def test_an_ignored_block_goes_to_the_mode(native, monkeypatch):
    a = torch.zeros(4)
    a.add_(1)
    names = operators_run_by_mode(monkeypatch)
    with syncheck.ignore("SYN101"):
        a.add_(1)
    assert names == ["aten.add_.Tensor"]
    a.add_(1)
    assert len(names) == 1


def test_subclasses_with_their_own_dispatch_go_to_the_mode(native, monkeypatch):
    class PlainSubclass(torch.Tensor):
        pass

    class WrapperSubclass(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(torch.ones(2), 1)

    a = torch.zeros(2)
    a.add_(1)
    names = operators_run_by_mode(monkeypatch)
    torch.zeros(2).as_subclass(PlainSubclass).add_(1)
    assert "aten.add_.Tensor" not in names  # the subclass has no dispatch of its own
    WrapperSubclass(torch.zeros(2)).add_(1)
    assert "aten.add_.Tensor" in names


def test_operator_errors_reach_the_program(native):
    a, b = torch.zeros(2, 3), torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a, b)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a, b)
    assert torch.mm(a, b.t().contiguous()).shape == (2, 2)


def test_operators_of_threads_are_recorded(native):
    a = torch.zeros(4)
    a.add_(1)
    before = native.extension.n_recorded()

    def work():
        with native.cuda.new_mode():
            a.add_(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    a.add_(1)
    assert a.tolist() == [3.0] * 4
    assert native.extension.n_recorded() >= before + 1
    assert [call[2] for call in native.monitor.named("launch")].count("aten::add_") >= 1


def test_freed_memory_is_forgotten(native):
    for _ in range(50):
        torch.zeros(1000)
    native.cuda.flush_calls()
    kept = {call[1] for call in native.monitor.named("allocate")} - {call[1] for call in native.monitor.named("free")}
    assert len(kept) <= 2


def test_a_resized_storage_is_a_new_block(native):
    a = torch.ones(4)
    a.add_(1)
    a.untyped_storage().resize_(4096)
    a.add_(1)
    b = torch.zeros(4)
    native.cuda.flush_calls()
    assert native.report().incomplete == ()
    assert b.tolist() == [0.0] * 4


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_a_tangent_subclass_intercepts_its_operators(native):
    x = torch.ones(2).sin()
    x.mul(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, Holder(torch.full((2,), 3.0)))
        tangent = forward_ad.unpack_dual(dual.mul(2).sin()).tangent
        assert torch.allclose(tangent.inner, 6 * (2 * x).cos())


def test_results_do_not_change(on_cpu, recorder):
    def losses():
        *_, loss, outcome = SAMPLES["training"]()
        return loss.item(), outcome.tolist()

    plain = losses()
    with watched_gpu(on_cpu, extension=recorder):
        losses()
        assert losses() == plain


def test_the_recorder_keeps_no_session_alive(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as watched:
        SAMPLES["arithmetic"]()
        session = weakref.ref(watched.monitor.session)
    del watched
    import gc

    gc.collect()
    assert session() is None


def test_plans_are_reused_by_later_checks(on_cpu, recorder):
    def check():
        with watched_gpu(on_cpu, extension=recorder):
            SAMPLES["training"]()
        return recorder.n_plans()

    made = check()
    assert made > 1
    assert [check() for _ in range(3)] == [made] * 3


def test_the_mode_observes_saved_tensor_hooks(native, monkeypatch):
    w = torch.randn(4, requires_grad=True)

    def step():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul(1), lambda t: t):
            return (w.exp() * 2).sum()

    step().backward()
    before = [call[2] for call in native.monitor.named("launch")].count("aten::mul")
    step().backward()
    assert [call[2] for call in native.monitor.named("launch")].count("aten::mul") > before


def test_an_operator_that_ends_after_a_second_stream_appeared_is_logged(native):
    a, b = torch.ones(4), torch.ones(4)
    native.cuda.streams.of(0, 7)
    native.mode.log_after_run("aten::add", [(a, False)], [b], fills=True)
    operator, writes = native.monitor.launches()[-1]
    assert (operator, writes[0]) == ("aten::add", False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_convolution_can_be_traced(native):
    network, x = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()), torch.ones(1, 1, 4, 4)
    traced = torch.jit.trace(network, x)
    assert [node.kind() for node in traced.inlined_graph.nodes()].count("aten::_convolution") == 1
    assert torch.equal(traced(x + 1), network(x + 1))


def test_a_backward_pass_detaches_what_it_unpacks_without_the_mode(on_cpu, recorder, monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(3, 4)
    model(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    with watched_gpu(on_cpu, extension=recorder):
        for _ in range(2):  # the first run creates plans
            model.zero_grad()
            model(x).sum().backward()
        by_mode = operators_run_by_mode(monkeypatch)
        model.zero_grad()
        model(x).sum().backward()
        assert by_mode == []
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)


def test_other_modes_and_subclasses_still_see_tensors_being_detached(recorder):
    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with Noting():
        model(torch.randn(3, 4)).sum().backward()
    assert "aten.detach.default" in seen
    holder = Holder(torch.randn(2))
    assert isinstance(holder.detach(), Holder)
