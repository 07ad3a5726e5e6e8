"""The native recorder records what the dispatch mode does, and leaves to it what is not its own.

CPU tensors stand in for tensors of `cuda:0`, as in the tests of the mode.
"""

import fcntl
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import syncheck
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.mode import WatchMode
from syncheck.cuda.native_build import extension
from syncheck.cuda.native_recorder import description
from syncheck.findings import Frame
from syncheck.instrument.plan import plan_of
from tests.unit.conftest import watched_gpu

SAMPLES = {}


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


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """The extension, built once by all workers of a run."""
    folder = tmp_path_factory.getbasetemp().parent / "native"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv("SYNCHECK_CACHE_DIR", str(folder))
        return extension("native", print)


@pytest.fixture
def native(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as watched:
        watched.extension = recorder
        torch.ones(1)  # the first operator is the mode's: it says which stream is the only one
        yield watched


@pytest.mark.parametrize(
    ("operator", "is_ours"),
    [
        ("add.Tensor", True),
        ("t.default", True),
        ("_local_scalar_dense.default", True),
        ("cudnn_batch_norm.default", True),
        ("nonzero.default", False),  # the host waits for the size
        ("_pin_memory.default", False),
        ("index_put_.default", False),
        ("index_copy_.default", False),  # rows that an index names
    ],
)
def test_only_operators_that_neither_wait_nor_record_are_described(operator, is_ours):
    name, _, overload = operator.partition(".")
    func = getattr(getattr(torch.ops.aten, name), overload)
    assert (description(DispatchPlan(func, plan_of(func), None), SimpleNamespace(specials={})) is not None) == is_ours


def seen_by_mode(monkeypatch):
    """Return a list that gets the names of the operators that the mode runs from now on."""
    names = []
    original = WatchMode.__torch_dispatch__

    def dispatch(self, func, types, args=(), kwargs=None):
        names.append(str(func))
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(WatchMode, "__torch_dispatch__", dispatch)
    return names


def last_accesses(watched):
    """Return what is known of the memory that lives: its size, and who accessed which bytes of it last."""
    watched.cuda.flush_calls()
    sizes, last, gone = {}, {}, set()
    for name, *rest in watched.monitor.calls:
        if name == "allocate":
            sizes[rest[0]] = rest[2]
        elif name == "launch":
            for access in rest[2]:
                last[tuple(access)] = (rest[1], watched.sites.place(rest[3]).frame.line)
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
        program()  # it makes plans
        kept = program()
        found = last_accesses(watched)
        assert kept
        return found, watched.report().summary.operators


@pytest.mark.parametrize("name", SAMPLES)
def test_it_records_what_the_mode_does(name, on_cpu, recorder):
    expected = watched_accesses(on_cpu, SAMPLES[name])
    found = watched_accesses(on_cpu, SAMPLES[name], recorder)
    assert found == expected
    assert recorder.n_recorded() > 1


def test_the_mode_is_not_asked_for_what_it_can_record(native, monkeypatch):
    SAMPLES["arithmetic"]()
    names = seen_by_mode(monkeypatch)
    SAMPLES["arithmetic"]()
    assert names == []


def test_a_race_on_a_second_stream_is_found_in_memory_that_it_saw_first(native):
    torch.zeros(4, 4)
    a = torch.zeros(4, 4)
    assert native.extension.has_blocks()
    native.cuda.streams.of(0, 7)  # the second stream
    native.current.handle = 7
    total = a.sum()
    del total
    (finding,) = native.report().findings
    assert finding.rule.code == "SYN101"
    assert isinstance(finding.place.frame, Frame)
    assert finding.place.frame.source.strip() == "total = a.sum()"
    assert finding.related[0].frame.source.strip() == "a = torch.zeros(4, 4)"


def test_it_gives_up_when_a_second_stream_comes_up(native, monkeypatch):
    a = torch.zeros(4)
    a.add_(1)
    native.cuda.streams.of(0, 7)
    names = seen_by_mode(monkeypatch)
    a.add_(1)
    assert names == ["aten.add_.Tensor"]


def test_an_ignored_block_is_for_the_mode(native, monkeypatch):
    a = torch.zeros(4)
    a.add_(1)
    names = seen_by_mode(monkeypatch)
    with syncheck.ignore("SYN101"):
        a.add_(1)
    assert names == ["aten.add_.Tensor"]
    a.add_(1)
    assert len(names) == 1


def test_subclasses_and_other_modes_are_for_the_mode(native, monkeypatch):
    class Mine(torch.Tensor):
        pass

    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(torch.ones(2), 1)

    a = torch.zeros(2)
    a.add_(1)
    names = seen_by_mode(monkeypatch)
    torch.zeros(2).as_subclass(Mine).add_(1)
    assert "aten.add_.Tensor" not in names  # it has no dispatch of its own
    Wrapped(torch.zeros(2)).add_(1)
    assert "aten.add_.Tensor" in names


def test_an_error_of_an_operator_is_the_programs(native):
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


def test_memory_that_is_freed_is_forgotten(native):
    for _ in range(50):
        torch.zeros(1000)
    native.cuda.flush_calls()
    kept = {call[1] for call in native.monitor.named("allocate")} - {call[1] for call in native.monitor.named("free")}
    assert len(kept) <= 2


def test_a_resized_storage_is_another_block(native):
    a = torch.ones(4)
    a.add_(1)
    a.untyped_storage().resize_(4096)
    a.add_(1)
    b = torch.zeros(4)
    native.cuda.flush_calls()
    assert native.report().incomplete == ()
    assert b.tolist() == [0.0] * 4


def test_results_do_not_change(on_cpu, recorder):
    def losses():
        *_, loss, outcome = SAMPLES["training"]()
        return loss.item(), outcome.tolist()

    plain = losses()
    with watched_gpu(on_cpu, extension=recorder):
        losses()
        assert losses() == plain


def test_it_keeps_no_check_alive(on_cpu, recorder):
    with watched_gpu(on_cpu, extension=recorder) as watched:
        SAMPLES["arithmetic"]()
        session = weakref.ref(watched.monitor.session)
    del watched
    import gc

    gc.collect()
    assert session() is None


def test_a_check_makes_no_plan_that_one_before_has_made(on_cpu, recorder):
    def check():
        with watched_gpu(on_cpu, extension=recorder):
            SAMPLES["training"]()
        return recorder.n_plans()

    made = check()
    assert made > 1
    assert [check() for _ in range(3)] == [made] * 3


def test_the_mode_sees_what_hooks_of_saved_tensors_do(native, monkeypatch):
    w = torch.randn(4, requires_grad=True)

    def step():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.mul(1), lambda t: t):
            return (w.exp() * 2).sum()

    step().backward()
    before = [call[2] for call in native.monitor.named("launch")].count("aten::mul")
    step().backward()
    assert [call[2] for call in native.monitor.named("launch")].count("aten::mul") > before


def test_an_operator_that_ends_after_a_second_stream_came_up_is_logged(native):
    a, b = torch.ones(4), torch.ones(4)
    native.cuda.streams.of(0, 7)
    native.mode.late("aten::add", [(a, False)], [b])
    operator, writes = native.monitor.launches()[-1]
    assert (operator, writes[0]) == ("aten::add", False)
