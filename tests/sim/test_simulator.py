"""How the simulator patches torch, and its events for streams and memory."""

import subprocess
import sys
import threading
import time

import pytest
import torch

from syncheck.instrument.findings import NewFindings
from syncheck.sim.backend import Simulator
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.null_monitor import NoSites, NullMonitor


class Recorder(NullMonitor):
    """Records the calls that the tests check."""

    def __init__(self):
        self.calls = []

    def launch(self, stream, operator, accesses, site, context=None):
        self.calls.append(("launch", stream, operator))

    def wait_stream(self, stream, other, site, origins=("", "")):
        self.calls.append(("wait", stream, other))

    def free(self, allocation, site):
        self.calls.append(("free", allocation))

    def incomplete(self, reason):
        self.calls.append(("incomplete", reason))


def new_simulator(n_devices, monitor):
    return Simulator(n_devices, monitor, NoSites(), lambda _: None, NewFindings(), lambda: None)


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def simulator(recorder):
    gpus = new_simulator(3, recorder)
    with gpus.watching():
        yield gpus


def snapshot():
    owners = {"torch": torch, "cuda": torch.cuda, "C": torch._C, "Tensor": torch.Tensor, "time": time}
    owners |= {"Storage": torch.UntypedStorage, "Thread": threading.Thread, "accelerator": torch.accelerator}
    owners |= {"memory": torch.cuda.memory, "graphs": torch.cuda.graphs, "streams": torch.cuda.streams}
    owners |= {"autocast": torch.amp.autocast_mode.autocast, "nn": torch._C._nn, "Function": torch.autograd.Function}
    return {(name, key): value for name, owner in owners.items() for key, value in list(vars(owner).items())}


def test_all_patches_are_removed():
    before = snapshot()
    with new_simulator(2, NullMonitor()).watching():
        assert torch.ones(2, device="cuda:1").is_cuda
        with torch.autocast("cuda"):
            torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
        assert snapshot() != before
    after = snapshot()
    assert {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)} == set()
    assert not torch.cuda.is_available()
    assert not torch.cuda.is_initialized()
    assert torch.ones(2).device.type == "cpu"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert torch.exp(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_the_simulator_can_be_installed_again():
    for count in (1, 3):
        with new_simulator(count, NullMonitor()).watching():
            assert torch.cuda.device_count() == count


def test_importing_the_simulator_changes_nothing():
    code = (
        "import torch, time, threading\n"
        "def look(): return [dict(vars(o)) for o in (torch.Tensor, torch.cuda, time, threading.Thread, torch._C)]\n"
        "before = look()\n"
        "import syncheck.sim.backend\n"
        "for b, a in zip(before, look()):\n"
        "    assert all(a.get(k) is v for k, v in b.items())\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


# -- backward


def test_backward_runs_on_the_streams_of_the_forward_pass(simulator, recorder):
    side = torch.cuda.Stream()
    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.cuda.stream(side):
        y = x.exp()
    loss = y.sum()
    recorder.calls.clear()
    loss.backward()
    exp_backward = [stream for _, stream, name in recorder.calls if name == "aten::mul"]
    assert exp_backward == [side.ident]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_the_streams_of_leaves_are_joined_with_the_caller(simulator, recorder):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(3, device="cuda", requires_grad=True)
        y = (x * 2).sum()
    recorder.calls.clear()
    y.backward()
    default = torch.cuda.default_stream().ident
    assert [call for call in recorder.calls if call[0] == "wait"][-1] == ("wait", default, side.ident)


def test_a_leaf_keeps_the_stream_of_its_first_use_while_a_graph_holds_its_node(simulator, recorder):
    x = torch.ones(3, device="cuda", requires_grad=True)
    loss = (x * 2).sum()  # before any other stream is current
    loss.backward()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        average = x.detach() * 0.1
    loss = (x * average).sum()
    recorder.calls.clear()
    loss.backward()
    assert [call for call in recorder.calls if call[0] == "wait"] == []


def test_leaves_used_before_any_other_stream_was_current_stay_on_the_default_stream(simulator, recorder):
    leaves = [torch.ones(3, device="cuda", requires_grad=True) for _ in range(3)]
    loss = sum((leaf * 2).sum() for leaf in leaves)
    loss.backward()
    with torch.cuda.stream(torch.cuda.Stream()):
        averages = [leaf.detach() * 0.1 for leaf in leaves]
    loss = sum((leaf * average).sum() for leaf, average in zip(leaves, averages, strict=True))
    recorder.calls.clear()
    loss.backward()
    assert [call for call in recorder.calls if call[0] == "wait"] == []


def test_a_node_without_launches_passes_on_the_order(simulator, recorder):
    side = torch.cuda.Stream()
    x, c = (torch.ones(3, device="cuda", requires_grad=grad) for grad in (True, False))
    y = x * 2
    with torch.cuda.stream(side):
        z = (y + c) * 3
    recorder.calls.clear()
    z.backward(torch.ones(3, device="cuda"))
    default = torch.cuda.default_stream().ident
    calls = [call for call in recorder.calls if call[0] == "wait" or call[2] == "aten::mul"]
    on_side, wait, on_default = calls[-3:]
    assert (on_side[1], wait, on_default[1]) == (side.ident, ("wait", default, side.ident), default)


def test_functions_and_hooks_run_with_the_stream_of_their_node(simulator):
    side, seen = torch.cuda.Stream(), []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.cuda.current_stream())
            return grad * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.cuda.stream(side):
        y = Double.apply(x)
        y.register_hook(lambda grad: seen.append(torch.cuda.current_stream()))
    y.sum().backward()
    assert seen == [side, side]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


# -- memory


def test_a_dropped_tensor_is_freed(simulator, recorder):
    x = torch.ones(3, device="cuda")
    before = torch.cuda.memory_allocated()
    recorder.calls.clear()
    del x
    assert torch.cuda.memory_allocated() == before - 512
    assert len([call for call in recorder.calls if call[0] == "free"]) == 1


def test_a_view_keeps_memory_alive(simulator, recorder):
    x = torch.ones(3, device="cuda")
    view = x[1:]
    recorder.calls.clear()
    del x
    torch.cuda.memory_allocated()
    assert recorder.calls == []
    del view
    torch.cuda.memory_allocated()
    assert [call[0] for call in recorder.calls] == ["free"]


# -- threads and processes


def test_each_thread_has_its_own_device_and_stream(simulator):
    seen = []
    side = torch.cuda.Stream(1)

    def look():
        seen.append((torch.cuda.current_device(), torch.cuda.current_stream(1) == torch.cuda.default_stream(1)))
        torch.cuda.set_device(2)

    torch.cuda.set_device(1)
    with torch.cuda.stream(side):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(0, True)]
    assert torch.cuda.current_device() == 1


def test_a_forked_child_is_not_simulated(simulate):
    report = simulate("""
import os, torch
x = torch.ones(3, device="cuda")
pid = os.fork()
if pid == 0:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
    assert _get_current_dispatch_mode_stack() == []
    assert torch.ones(2).sum() == 2
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        os._exit(0 if "Cannot re-initialize CUDA in forked subprocess" in str(error) else 2)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""")
    assert report["findings"] == report["incomplete"] == []


# -- the interface is complete

_ARGUMENTS = {
    "set_device": (0,),
    "device": (0,),
    "device_index": (0,),
    "set_device_index": (0,),
    "set_device_idx": (0,),
    "device_of": (torch.ones(1),),
    "can_device_access_peer": (0, 1),
    "stream": (None,),
    "StreamContext": (None,),
    "ExternalStream": (0,),
    "get_stream_from_external": (0,),
    "manual_seed": (0,),
    "manual_seed_all": (0,),
    "set_per_process_memory_fraction": (0.5,),
    "set_rng_state_all": ([],),
    "set_sync_debug_mode": (0,),
    "caching_allocator_alloc": (1,),
    "check_error": (0,),
    "CudaError": (0,),
    "export_dot": ("graph.dot",),
    "export_graph_data": ("graph.pickle",),
}
# Tested by other programs or unit tests: cuda_graphs.py, pools_profiler_compile.py, random_numbers.py.
_ELSEWHERE = {
    "graph",
    "make_graphed_callables",
    "caching_allocator_delete",
    "use_mem_pool",
    "set_rng_state",
    "set_stream",
    "_POOL_HANDLE",
    "CudaError",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", [torch.cuda, torch.accelerator], ids=lambda m: m.__name__)
def test_every_public_name_works_or_raises_not_simulated_error(simulator, module):
    refused, texts = set(), []
    for name in set(module.__all__) - _ELSEWHERE:
        value = getattr(module, name)
        if not callable(value):
            continue
        try:
            value(*_ARGUMENTS.get(name, ()))
        except NotSimulatedError as error:
            refused.add(name)
            texts.append((name, str(error)))
    expected = """caching_allocator_disabled change_current_allocator
    CUDAPluggableAllocator GreenContext temperature power_draw clock_rate current_blas_handle
    current_solver_handle""".split()
    assert all(name in text and "check this program on real GPUs" in text for name, text in texts)
    assert refused == (set(expected) & set(module.__all__))


def test_rejected_modules_are_named_in_the_error(simulator):
    for call in (torch.cuda.nccl.unique_id, torch.cuda.tunable.tune_gemm_in_file, torch.cuda.gds.GdsFile):
        with pytest.raises(NotSimulatedError, match=r"torch\.cuda\."):
            call()
    with pytest.raises(NotSimulatedError, match="_cuda_getArchFlags"):
        torch._C._cuda_getArchFlags()


def test_a_cuda_build_of_torch_takes_the_code_paths_of_a_cpu_build(monkeypatch, request):
    functions = torch._C
    monkeypatch.setattr(functions, "_cuda_ofARealGpu", lambda: "it looks for a driver", raising=False)
    monkeypatch.setattr(functions, "_has_cudnn", True)
    monkeypatch.setattr(torch.cuda.nccl, "is_available", lambda tensors: True)
    request.getfixturevalue("simulator")
    with pytest.raises(NotSimulatedError, match="_cuda_ofARealGpu"):
        functions._cuda_ofARealGpu()
    assert not functions._has_cudnn
    assert not torch.backends.cudnn.is_acceptable(torch.ones(1, device="cuda"))
    assert not torch.cuda.nccl.is_available([torch.ones(1, device="cuda")])
    torch.nn.LSTM(2, 2).to("cuda:1")


# -- expectations of real programs


def test_a_compiled_module_is_a_wrapper_that_runs_eagerly(simulator):
    module = torch.nn.Linear(2, 2, device="cuda")
    compiled = torch.compile(module)
    assert compiled._orig_mod is module
    x = torch.ones(1, 2, device="cuda")
    assert torch.equal(compiled(x), module(x))
    assert torch.compile(lambda x: x + 1)(x).sum().item() == 4


@pytest.mark.parametrize("n_bytes", [1 << 33, 1 << 60])
def test_running_out_of_memory_raises_torchs_own_error(simulator, n_bytes):
    kept = []
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        kept.extend(torch.empty(n_bytes, dtype=torch.uint8, device="cuda") for _ in range(11))
    kept.clear()
    assert torch.ones(2, device="cuda").sum().item() == 2


def test_a_started_python_process_makes_the_report_incomplete(simulator, recorder):
    subprocess.run(["true"], check=True)
    assert [call for call in recorder.calls if call[0] == "incomplete"] == []
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    (call,) = [call for call in recorder.calls if call[0] == "incomplete"]
    assert "was not checked" in call[1]


@pytest.mark.parametrize(
    "call",
    [
        "transpose_(0, 1)",
        "t_()",
        "unsqueeze_(0)",
        "squeeze_()",
        "squeeze_(0)",
        "swapaxes_(0, 1)",
        "swapdims_(0, 1)",
        "as_strided_((3,), (2,))",
        "detach_()",
    ],
)
def test_an_in_place_view_is_not_a_write(simulate, call):
    report = simulate(f"""
import torch
side = torch.cuda.Stream()
x = torch.ones(2, 3, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    y = x * 2
x.{call}
torch.cuda.synchronize()
print(y.sum().item())
""")
    assert [f["rule"] for f in report["findings"]] == []
