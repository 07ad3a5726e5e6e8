"""The CUDA backend's capture on a machine without GPUs: CPU tensors stand in for tensors of `cuda:0`.

Streams, events and callbacks need a driver and are tested by `pytest -m gpu`.
"""

import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.cuda import devices
from syncheck.cuda.callback_order import Callback, Kind, work_index, working_stream
from syncheck.cuda.graphs import Graphs
from syncheck.errors import BackendError
from syncheck.instrument.collectives import plan_of
from syncheck.instrument.kept_results import KeptResults
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import plan_of as operator_plan
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.torch_internals import disable_dispatch_modes


def test_an_operator_reads_its_arguments_and_writes_its_result(gpu):
    a = torch.ones(4, 4)
    a @ a
    assert gpu.monitor.launches() == [("aten::ones", [True]), ("aten::mm", [False, False, True])]
    assert gpu.monitor.launches()[1][0] == "aten::mm"
    assert [call[3] for call in gpu.monitor.named("allocate")] == [64, 64]


def test_views_and_metadata_launch_nothing(gpu):
    a = torch.empty(4, 4)
    a.t().detach()[1:].expand(2, 3, 4)
    assert gpu.monitor.launches() == []
    assert len(gpu.monitor.named("allocate")) == 1


def test_views_of_a_tensor_share_its_allocation(gpu):
    a = torch.zeros(4, 4)
    a[1:].add_(1)
    a[:, 2].mul_(2)
    (_, made), (_, rows), (_, column) = [(call[2], call[3]) for call in gpu.monitor.named("launch")]
    assert made[0][0] == rows[0][0] == column[0][0]
    assert len({made[0][1], rows[0][1], column[0][1]}) == 3


def test_a_race_reports_shape_and_variable_name(gpu):
    a = torch.zeros(4, 4)
    gpu.current.handle = 7
    total = a.sum()
    del total
    (finding,) = gpu.report().findings
    assert finding.rule.code == "SYN101"
    assert "`a` (4x4 float32, 64 bytes)" in finding.message
    assert finding.location.frame.source.strip() == "total = a.sum()"


class QueryInterceptingTensor(torch.Tensor):
    """Tensor subclass that intercepts operators, including queries for its size, layout and device."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dispatch_sizes_strides_policy="sizes", dispatch_device=True, dispatch_layout=True
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return torch.device("cpu")
        args = [arg.inner if isinstance(arg, cls) else arg for arg in args]
        return func(*args, **(kwargs or {}))


def test_queries_unknown_to_the_dispatcher_go_to_the_tensor(gpu):
    x = QueryInterceptingTensor(torch.ones(2, 3))
    assert (x.size(), x.dim(), x.device.type) == ((2, 3), 2, "cpu")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    assert [part.tolist() for part in (nested * 2).unbind()] == [[2, 2], [2, 2, 2]]
    with FakeTensorMode() as mode:
        assert mode.from_tensor(torch.ones(4, 4)[1:].t()).stride() == (1, 4)
    assert not gpu.report().incomplete


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_views_made_by_primitive_operators_are_views(gpu, dtype):
    x = torch.ones(4, 6, dtype=dtype, requires_grad=dtype.is_floating_point)
    results = torch._refs.reshape(x, (24,)), torch._refs.flatten(x), torch._refs.as_strided(x, (2, 2), (1, 1))
    assert [result._is_view() for result in results] == [True, True, True]


@pytest.mark.filterwarnings("ignore")
def test_numbers_in_a_traced_function_are_supported(gpu):
    traced = torch.jit.trace(lambda x: torch.clamp_min(1.0 + x, 0), torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [2, 2]


def test_freed_memory_becomes_a_new_allocation_when_reused(gpu):
    a = torch.zeros(8)
    gpu.cuda.memory.freed(a.data_ptr())
    a.add_(1)
    first, second = gpu.monitor.named("allocate")
    assert first[1] != second[1]
    assert gpu.monitor.named("free")[0][1] == first[1]


def test_memory_from_before_the_check_does_not_race(gpu):
    with torch.utils._python_dispatch._disable_current_modes():
        old = torch.zeros(8)
    gpu.current.handle = 7
    old.add_(1)
    assert gpu.report().findings == ()


def test_results_sharing_a_block_are_one_allocation_and_end_with_it(gpu):
    q, k, v = torch._transform_bias_rescale_qkv(torch.randn(2, 3, 24), torch.randn(24), 2)
    entries = [gpu.cuda.memory.live[tensor.data_ptr()].ident for tensor in (q, k, v)]
    assert len(set(entries)) == 1
    gpu.cuda.memory.freed(q.untyped_storage().data_ptr())
    assert not {tensor.data_ptr() for tensor in (q, k, v)} & gpu.cuda.memory.live.keys()


def test_a_block_shared_by_several_results_has_their_total_size(gpu):
    torch._transform_bias_rescale_qkv(torch.randn(2, 3, 24), torch.randn(24), 2)
    assert [call[3] for call in gpu.monitor.named("allocate")] == [576, 96, 576]


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_sparse_and_nested_tensors_do_not_end_the_check(gpu):
    sparse = torch.eye(3).to_sparse()
    (sparse @ torch.ones(3, 3)).sum()
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 2])).sum().backward()
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2
    assert gpu.cuda.is_checking


def test_record_stream_on_unseen_memory_is_not_reported_as_useless(gpu):
    with torch.utils._python_dispatch._disable_current_modes():
        old = torch.zeros(8)
    gpu.cuda.memory.access(old, is_write=False)
    view = gpu.cuda.memory.exact_view(old)
    gpu.monitor.record_stream(gpu.cuda.memory.allocation_of(old), view, 1, 0)
    assert gpu.report().findings == ()


def test_long_lists_are_remembered_until_their_memory_is_freed(gpu):
    tensors = [torch.ones(3) for _ in range(10)]
    more = [torch.ones(3) for _ in range(10)]
    for _ in range(2):
        torch._foreach_add_(tensors, more)
    assert len(gpu.cuda.memory.lists) == 2
    first, second = gpu.monitor.named("launch")[-2:]
    assert first[3] == second[3]
    gpu.cuda.memory.freed(tensors[3].data_ptr())
    assert len(gpu.cuda.memory.lists) == 1
    torch._foreach_add_(tensors, more)
    assert gpu.monitor.named("launch")[-1][3] != second[3]


def test_an_operator_that_raises_keeps_its_error_and_loses_nothing(gpu):
    a = torch.ones(4, 4)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        a @ torch.ones(3, 3)
    a.add_(1)
    assert gpu.monitor.launches()[-1] == ("aten::add_", [True])


def test_an_error_keeps_its_type_and_releases_temporaries(gpu):
    a = torch.ones(4, 4)
    with pytest.raises(StopIteration):
        torch.add(a + 1, next(iter(())))
    a.add_(1)
    assert [call[1] for call in gpu.monitor.named("free")] == [2]


def test_a_block_lives_as_long_as_its_last_view(gpu):
    a = torch.ones(4, 4)
    row = a[1]
    del a
    row.add_(1)
    assert gpu.monitor.named("free") == []
    del row
    assert [call[1] for call in gpu.monitor.named("free")] == [1]


def test_a_new_storage_at_the_address_of_an_old_block_ends_the_old_block(gpu):
    a = torch.ones(8)
    storage = torch.ones(8).untyped_storage()
    memory = gpu.cuda.memory
    assert memory.is_known(a.untyped_storage(), a.data_ptr())
    assert not memory.is_known(storage, a.data_ptr())
    assert a.data_ptr() not in memory.live


def test_waiting_for_a_functional_collective_accesses_no_memory(gpu):
    import torch.distributed._functional_collectives  # defines the operators

    a = torch.ones(4)
    torch.ops._c10d_functional.wait_tensor(a)
    assert [name for name, _ in gpu.monitor.launches()] == ["aten::ones"]


def test_the_trace_is_on_only_inside_listening_calls(gpu):
    trace = gpu.cuda.gpu_trace
    trace.switch = SimpleNamespace(value=False)
    seen = []
    look = trace.around(lambda: seen.append(trace.switch.value))
    trace.around(lambda: (look(), seen.append(trace.switch.value)))()
    assert seen == [True, True]
    assert not trace.switch.value
    torch.ones(4).add_(1)
    assert not trace.switch.value
    with pytest.raises(ZeroDivisionError):
        trace.around(lambda: 1 / 0)()
    assert not trace.switch.value
    with pytest.raises(RuntimeError):
        trace.around(lambda: torch.ones(4, 4) @ torch.ones(3, 3))()
    assert not trace.switch.value


def test_operators_without_a_gradient_are_decomposed_in_inference_mode(gpu):
    layer = torch.nn.Linear(4, 4)
    gpu.monitor.calls.clear()
    with torch.inference_mode():
        layer(torch.ones(2, 4))
    assert "aten::addmm" in [name for name, _ in gpu.monitor.launches()]


def test_an_inactive_dropout_returns_its_input_in_inference_mode(gpu):
    with torch.inference_mode():
        x = torch.ones(2)
        assert torch.nn.functional.dropout(x, training=False) is x


def test_python_kernels_do_not_replace_native_kernels(gpu):
    x, weight = torch.randn(4, 3), torch.ones(3)
    gpu.monitor.launches()
    gpu.monitor.calls.clear()
    torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)
    torch.nn.functional.interpolate(x[None], scale_factor=2)
    names = [name for name, _ in gpu.monitor.launches()]
    assert [name for name in names if "::_" not in name] == ["aten::native_batch_norm", "aten::upsample_nearest1d"]


def test_fake_tensors_access_no_memory(gpu):
    with FakeTensorMode():
        torch.ones(4) + 1  # on first use torch 2.8 makes real tensors
        gpu.monitor.launches()
        gpu.monitor.calls.clear()
        torch.ones(4) + 1
    assert gpu.monitor.launches() == []


def test_a_tensor_subclass_is_observed_through_its_inner_tensors(gpu):
    class Doubled(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*(arg.inner if isinstance(arg, Doubled) else arg for arg in args), **(kwargs or {}))

    Doubled(torch.ones(3)).mul(2)
    assert gpu.monitor.launches()[-1] == ("aten::mul", [False, True])


def test_an_internal_failure_is_reported_and_repeated_failures_end_the_check(gpu, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(gpu.monitor.session, "launch", fail)
    x = torch.ones(3)
    assert gpu.cuda.is_checking
    assert gpu.report().incomplete == ("aten::ones could not be logged: KeyError: 'a mistake of ours'",)
    for _ in range(30):
        x = x + 1
    assert x.tolist() == [31, 31, 31]
    gpu.cuda.flush_calls()
    assert not gpu.cuda.is_checking
    assert "syncheck itself failed" in gpu.report().incomplete[-1]
    gpu.monitor.session._incomplete.clear()


def test_a_call_site_is_in_the_program_rather_than_the_library(gpu):
    x = torch.ones(2, 4)
    torch.nn.Linear(4, 4)(x)
    sites = gpu.cuda.reporter.sites
    addmm = next(call for call in gpu.monitor.named("launch") if call[2] == "aten::addmm")
    assert sites.location(addmm[4]).frame.source.strip() == "torch.nn.Linear(4, 4)(x)"


def test_torchs_own_sanitizer_is_rejected(monkeypatch):
    module = SimpleNamespace(cuda_sanitizer=SimpleNamespace(enabled=True))
    monkeypatch.setitem(sys.modules, "torch.cuda._sanitizer", module)
    with pytest.raises(BackendError, match="both cannot check the same program"):
        devices.check_sanitizer()


def test_a_torch_build_without_cuda_raises_an_error():
    if torch.version.cuda is None:
        with pytest.raises(BackendError, match="built without CUDA"):
            devices.describe()


def in_other_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.parametrize(("is_native", "is_refused", "reports"), [(True, True, 1), (False, True, 1), (False, False, 0)])
def test_rejected_waits_of_other_threads_during_a_capture_are_reported(gpu, is_native, is_refused, reports):
    def wait(event: object) -> None:
        if is_refused:
            raise RuntimeError("operation not permitted when stream is capturing")

    captures = gpu.cuda.captures
    captures.begin() if is_native else in_other_thread(captures.begin)
    synchronize = gpu.cuda.events._synchronize(wait)
    with pytest.raises(RuntimeError) if is_refused else nullcontext():
        synchronize(SimpleNamespace(cuda_event=0))
    captures.end()
    assert len(gpu.monitor.named("sync_in_capture")) == reports


def test_operators_that_need_a_number_synchronize_the_host():
    waiting = [torch.ops.aten._to_sparse.default, torch.ops.aten.linalg_matrix_exp.default]
    assert all(operator_plan(operator).synchronizes for operator in waiting)
    assert not operator_plan(torch.ops.aten.mm.default).synchronizes


def record(stream: int) -> Callback:
    return Callback(Kind.RECORD, 1, stream)


def wait(stream: int) -> Callback:
    return Callback(Kind.WAIT, 1, stream)


SYNC = Callback(Kind.SYNC_STREAM, 0, 1)


@pytest.mark.parametrize(
    ("inner", "stream", "place"),
    [
        # observed: an asynchronous collective waits for stream 1, works on 2, and records its end and its future
        ([record(1), wait(2), record(2), record(2)], 2, 2),
        # observed: the same with a timing event at the beginning
        ([record(1), wait(2), record(2), record(2), record(2)], 2, 2),
        ([record(1), wait(2), record(2), record(1), record(2)], 2, 2),
        ([record(1), wait(2), record(2), record(1)], 2, 2),
        # observed: a synchronous collective works on the current stream
        ([record(1), record(1)], 1, 0),
        # observed: waiting for a work object makes the current stream wait
        ([wait(1)], 1, 1),
        # observed: one of several operators launched together
        ([record(1), wait(2)], 2, 2),
        ([SYNC], 1, 0),
        ([wait(1), SYNC], 1, 1),
        ([], 1, 0),
    ],
)
def test_an_operator_is_placed_after_its_waits_and_before_its_records(inner, stream, place):
    assert working_stream(inner, 1) == stream
    assert work_index(inner, stream) == place


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("allreduce_", {"tensors"}, {"tensors"}),
        ("broadcast_", {"tensors"}, {"tensors"}),
        ("_allgather_base_", {"output_tensor"}, {"output_tensor", "input_tensor"}),
        ("allgather_", {"output_tensors"}, {"output_tensors", "input_tensors"}),
        ("reduce_scatter_", {"output_tensors"}, {"output_tensors", "input_tensors"}),
        ("alltoall_base_", {"output"}, {"output", "input"}),
        ("send", set(), {"tensors"}),
        ("recv_", {"tensors"}, {"tensors"}),
        ("barrier", set(), set()),
    ],
)
def test_collectives_declare_reads_and_writes(name, written, read):
    plan = plan_of(getattr(torch.ops.c10d, name).default)
    assert plan is not None
    assert {argument.name for argument in plan.tensors if argument.is_write} == written
    assert {argument.name for argument in plan.tensors if argument.is_read} == read


def test_near_sites_are_equal_for_one_instruction_and_differ_between_two():
    sites = SiteTable()

    def here() -> int:
        return sites.capture_innermost(sys._getframe(1))

    first, second = [here() for _ in range(2)], here()
    assert first[0] == first[1] != second


def test_a_number_operand_has_no_access_and_stays_on_the_fast_path(gpu, monkeypatch):
    a = torch.ones(4)
    monkeypatch.setattr(gpu.cuda.operators, "log_slowly", None)
    b = a + 1
    b.mul_(2.0)
    assert gpu.monitor.launches()[1:] == [("aten::add", [False, True]), ("aten::mul_", [True])]


def test_a_failing_operator_with_a_number_operand_is_tried_once(gpu):
    with pytest.raises(RuntimeError, match="not supported") as failed:
        torch.tensor([True]) - True
    assert failed.value.__context__ is None


def test_a_gradient_used_on_another_stream_is_protected_as_in_torch(gpu):
    class OnSide(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            gpu.current.handle = 7
            inside = gradient * 3
            gpu.current.handle = 8
            made = inside * 2  # its own memory on another stream is the program's responsibility
            gpu.current.handle = 0
            return made

    x = torch.ones(4, requires_grad=True)
    gpu.current.handle = 7
    torch.ones(4)
    gpu.current.handle = 0
    loss = OnSide.apply(x.sin()).sum()
    gpu.cuda.launches.gradients.begin(gpu.cuda.memory.next_ident())
    gpu.cuda.reporter.backward_site = 1
    gpu.monitor.calls.clear()
    loss.backward()
    launches = gpu.monitor.named("launch")
    _, (made, _, _), _ = [access for call in launches if call[2] == "aten::mul" for access in call[3] if access[2]]
    default = launches[-1][1]
    assert [(call[1], *call[3:]) for call in gpu.monitor.named("record_stream")] == [(made, default, 0)]


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_writes_its_statistics_only_in_training_mode(gpu, training):
    x, mean, variance = torch.ones(4, 3), torch.zeros(3), torch.ones(3)
    torch._native_batch_norm_legit(x, None, None, mean, variance, training, 0.1, 1e-5)
    accesses = gpu.monitor.launches()[-1][1]
    assert accesses[:3] == [False, training, training]


@pytest.mark.parametrize("training", [False, True])
def test_cudnn_batch_norm_writes_its_statistics_only_in_training_mode(training):
    plan = operator_plan(torch.ops.aten.cudnn_batch_norm.default)
    if plan.is_off((None, None, None, None, None, training, 0.1, 1e-5), {}):
        plan = plan.off
    assert [argument.is_write for argument in plan.tensors] == [False, False, False, training, training]


@pytest.mark.parametrize("scale", [None, torch.tensor(2.0)])
def test_a_fused_optimizer_writes_gradients_only_to_unscale_them(gpu, scale):
    weight, gradient = torch.ones(3), torch.ones(3)
    torch._fused_sgd_(
        [weight],
        [gradient],
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=0.1,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
        grad_scale=scale,
    )
    assert gpu.monitor.launches()[-1][1][:2] == [True, scale is not None]


SOURCE = torch.ones(2, 3)
ON_ROWS = {
    "copy": lambda cache, index: cache.index_copy_(0, index, SOURCE),
    "assignment": lambda cache, index: cache.__setitem__(index, SOURCE),
    "scatter": lambda cache, index: cache.scatter_(0, index[:, None], 1.0),
}


@pytest.mark.parametrize("write", ON_ROWS.values(), ids=ON_ROWS)
@pytest.mark.parametrize(
    ("read", "level"),
    [
        (lambda cache, index: cache.index_select(0, index), "warning"),
        (lambda cache, index: cache[index], "warning"),
        (lambda cache, index: torch.nn.functional.embedding(index, cache), "warning"),
        (lambda cache, index: cache[0].sum(), "warning"),
        (lambda cache, index: cache.sum(), "error"),
    ],
    ids=["select", "index", "embedding", "one row", "whole"],
)
def test_rows_selected_by_an_index_on_the_gpu_may_be_disjoint(gpu, write, read, level):
    cache, index = torch.zeros(8, 3), torch.tensor([1, 5])
    gpu.current.handle = 7
    read(cache, index)
    gpu.current.handle = 0
    write(cache, index)
    (finding,) = (finding for finding in gpu.report().findings if finding.rule.code == "SYN102")
    assert finding.level == level
    assert ("an index on the GPU determines which rows" in str(finding.related)) == (level == "warning")


def test_index_select_on_a_sparse_tensor_accesses_all_of_its_parts(gpu):
    torch.eye(4).to_sparse().index_select(0, torch.tensor([1, 2]))
    assert gpu.report().incomplete == ()


def test_the_source_of_an_indexed_copy_is_read_in_full(gpu):
    cache, index, source = torch.zeros(8, 3), torch.tensor([1, 5]), torch.zeros(2, 3)
    gpu.current.handle = 7
    source.fill_(1)
    gpu.current.handle = 0
    cache.index_copy_(0, index, source)
    (finding,) = (finding for finding in gpu.report().findings if finding.rule.code == "SYN101")
    assert finding.level == "error"


def test_a_gradient_used_on_a_stream_entered_by_a_hook_is_not_protected(gpu):
    torch.ones(4)
    gpu.current.handle = 7
    torch.ones(4)
    gpu.current.handle = 0

    def hook(gradient):
        block, stream = SimpleNamespace(), SimpleNamespace(device_index=0)
        gpu.cuda.launches.entering(block, stream)
        gpu.current.handle = 7
        gradient.norm()
        gpu.current.handle = 0
        gpu.cuda.launches.left(block)

    x = torch.ones(4, requires_grad=True)
    y = x.sin()
    y.register_hook(hook)
    loss = (y * 3).sum()
    gpu.cuda.launches.gradients.begin(gpu.cuda.memory.next_ident())
    gpu.cuda.reporter.backward_site = 1
    loss.backward()
    assert gpu.monitor.named("record_stream") == []
    gpu.cuda.reporter.backward_site = 0


def test_torchs_own_fills_of_a_graphs_seed_and_offset_are_ignored(gpu, monkeypatch):
    class Graph:
        """Fills seed and offset as torch does."""

        def __init__(self):
            self.state = torch.empty(2)

        def capture_begin(self):
            self.state.fill_(1)

        def capture_end(self):
            pass

        def pool(self):
            return (0, 1)

        def replay(self):
            self.state.fill_(2)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    patches = Patches()
    cuda = gpu.cuda
    kept_results = KeptResults(cuda.memory.allocation_of)
    Graphs(cuda.reporter, cuda.streams, cuda.memory.owners, cuda.captures, kept_results).install(patches)
    x, graph = torch.ones(4), Graph()
    gpu.current.handle = 7
    gpu.cuda.streams.of(0, 7)
    gpu.monitor.wait_stream(gpu.cuda.streams.of(0, 7), gpu.cuda.streams.of(0, 0), 0)
    graph.capture_begin()
    y = x * 2
    graph.capture_end()
    gpu.current.handle = 0
    graph.replay()
    patches.undo()
    assert [name for name, _ in gpu.monitor.launches()] == ["aten::ones", "aten::mul"]
    assert len(gpu.monitor.named("replay")) == 1
    assert gpu.report().findings == ()
    del y


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_operator_implemented_for_nested_tensors_is_not_decomposed(gpu):
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    layer = torch.nn.Linear(4, 2)
    assert layer(rows).unbind()[1].shape == (3, 2)


@pytest.fixture(scope="module")
def library():
    """Return a library operator that calls other operators."""

    @torch.library.custom_op("cuda_mode_test::product", mutates_args=())
    def product(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).clone()

    return product


@pytest.mark.parametrize("context", [nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x, _: torch.einsum("ij,jk->ik", x, x),
        lambda x, _: torch.tensordot(x, x, dims=1),
        lambda x, _: torch.nn.functional.scaled_dot_product_attention(x, x, x),
        lambda x, _: torch.linalg.matrix_power(x, 3),
        lambda x, _: torch.linalg.pinv(x),
        lambda x, _: torch.cov(x),
        lambda x, _: torch.nn.functional.cross_entropy(x @ x, torch.tensor([0, 1, 2, 3])),
        lambda x, _: torch.nn.LSTM(4, 4)(x)[0],
        lambda x, library: library(x),
    ],
    ids=["einsum", "tensordot", "attention", "power", "pinv", "cov", "loss", "lstm", "library"],
)
def test_autocast_applies_to_operators_inside_others(compute, context, library, gpu, monkeypatch):
    """A mode runs below autocast, where the inner operators of `einsum` would compute in float32."""
    x = torch.arange(16.0).reshape(4, 4).sin()

    def result():
        torch.manual_seed(0)
        with context(), torch.autocast("cpu", torch.bfloat16):
            return compute(x, library).detach()

    with disable_dispatch_modes():
        try:
            plain = result()
        except RuntimeError as error:  # such as an LSTM in bfloat16
            pytest.skip(f"not on this CPU: {error}")
    watched = result()
    assert watched.dtype == plain.dtype
    assert torch.equal(watched, plain)


def test_autocast_stays_off_where_the_program_disabled_it(gpu):
    x = torch.eye(4)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        with torch.autocast("cpu", enabled=False):
            assert torch.tensordot(x, x, dims=1).dtype == torch.float32
        assert torch.tensordot(x, x, dims=1).dtype == torch.bfloat16
    with torch.inference_mode():
        assert torch.tensordot(x, x, dims=1).dtype == torch.float32


@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
def test_conjugated_views_inside_operators_compute_the_same_results(context, gpu):
    """Below a mode, kernels without support for conjugated views would read them as if they were not conjugated."""
    x = torch.randn(5, 5, dtype=torch.complex64)
    with context():
        watched = torch.linalg.pinv(x), torch.fft.hfft(x)
        with disable_dispatch_modes():
            plain = torch.linalg.pinv(x), torch.fft.hfft(x)
    assert all(torch.equal(a, b) for a, b in zip(watched, plain, strict=True))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_convolution_can_be_traced(gpu):
    network, x = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()), torch.ones(1, 1, 4, 4)
    traced = torch.jit.trace(network, x)
    assert [node.kind() for node in traced.inlined_graph.nodes()].count("aten::_convolution") == 1
    assert torch.equal(traced(x + 1), network(x + 1))
