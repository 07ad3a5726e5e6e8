"""Processes that the program starts."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from syncheck.sim import processes


def test_a_forked_child_is_not_checked(gpu):
    x = torch.ones(3)
    torch.cuda.init()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            x + 1
            torch.ones(2).add_(1)
            answer = b"ok" if gpu.runtime.is_in_bad_fork and not gpu.runtime.is_checking else b"watched"
            try:
                torch.ones(1).cuda()
                answer = b"no error"
            except RuntimeError as error:
                answer = answer if "forked subprocess" in str(error) else b"wrong"
            os.write(writer, answer)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"ok"
    os.close(reader)
    os.close(writer)
    assert gpu.runtime.is_checking


def in_forked_child(act):
    """Return the message of the exception that a function raises in a forked child, or its result as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(act())
        except (RuntimeError, NotImplementedError) as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:500])
        os._exit(0)
    os.waitpid(child, 0)
    answer = os.read(reader, 500).decode()
    os.close(reader)
    os.close(writer)
    return answer


@pytest.mark.parametrize(
    "code",
    [
        "torch.cuda.Stream()",
        "torch.cuda.current_stream()",
        "torch.cuda.synchronize()",
        "torch.cuda.current_device()",
        "torch.cuda.init()",
        "torch.cuda.Event().record()",
        'torch.ones(2).to("cuda")',
        "torch.ones(2).pin_memory()",
        'torch.empty(2, device="cuda")',
        'torch.empty_strided((2,), (1,), device="cuda")',
        'torch.randn(2, device="cuda")',
        'torch.arange(3, device="cuda")',
        'torch.zeros(2, device="cuda")',
        'torch.full((2,), 1.0, device="cuda")',
    ],
)
def test_cuda_cannot_be_initialized_again_in_a_forked_child(gpu, code):
    torch.ones(1, device="cuda")
    answer = in_forked_child(lambda: eval(code))
    assert answer.startswith("RuntimeError: Cannot re-initialize CUDA in forked subprocess")


def test_a_forked_child_has_no_initialized_gpu(gpu):
    torch.ones(1, device="cuda")
    assert in_forked_child(torch.cuda.is_initialized) == "False"
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "True"
    assert in_forked_child(torch.cuda.empty_cache) == "None"
    assert in_forked_child(lambda: torch.manual_seed(5).initial_seed()) == "5"
    assert in_forked_child(lambda: torch.cuda.manual_seed_all(5)) == "None"


def use_gpu():
    x = torch.ones(2, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        y = x * 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = y + 1
    graph.replay()
    sums = []
    thread = threading.Thread(target=lambda: sums.append((z + 1).sum().item()))
    thread.start()
    thread.join()
    return z.tolist(), str(z.device), sums


def test_a_forked_child_can_use_gpus_that_its_parent_had_not_used(gpu, capfd):
    torch.manual_seed(1)
    torch.cuda.manual_seed(2)
    torch.cuda.device_count()
    torch.ones(3) + 1
    assert in_forked_child(use_gpu) == "([3.0, 3.0], 'cuda:0', [8.0])"
    assert capfd.readouterr().err == ""
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "False"
    gpu.simulator.flush_calls()
    report = gpu.session.report(gpu.sites)
    assert report.findings == ()
    assert report.incomplete == ("a forked process used GPUs and was not checked",)
    assert torch.ones(1, device="cuda").item() == 1


def test_a_forked_child_that_uses_no_gpu_leaves_the_report_complete(gpu):
    assert in_forked_child(lambda: (torch.ones(3) + torch.cuda.device_count()).sum().item()) == "6.0"
    torch.cuda.init()
    assert in_forked_child(use_gpu).startswith("RuntimeError: Cannot re-initialize CUDA")
    gpu.simulator.flush_calls()
    assert gpu.session.report(gpu.sites).incomplete == ()


@pytest.mark.parametrize(
    "code",
    [
        "torch.cuda.memory_allocated()",
        "torch.cuda.max_memory_allocated(0)",
        "torch.cuda.memory_reserved()",
        "torch.cuda.memory_stats_as_nested_dict() or 0",
        "torch.cuda.empty_cache() or 0",
        "torch.cuda.is_initialized() + 0",
        "torch.cuda.device_count() - 1",
        "torch.cuda.manual_seed(1) or 0",
        "torch.cuda.seed() or 0",
        "torch.cuda.seed_all() or 0",
        "torch.cuda.set_rng_state(STATE) or 0",
        "torch.manual_seed(1) and 0",
    ],
)
def test_a_question_that_does_not_initialize_cuda_keeps_forks_good(gpu, code):
    state = next(iter(torch.cuda.default_generators)).get_state()
    assert eval(code, {"torch": torch, "STATE": state}) == 0
    assert not torch.cuda.is_initialized()
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "False"
    torch.cuda.init()
    assert torch.cuda.is_initialized()


@pytest.mark.parametrize(
    "code", ["mem_get_info()", "get_rng_state_all()", "reset_peak_memory_stats()", "initial_seed()", "current_device()"]
)
def test_a_question_that_initializes_cuda_makes_forks_bad(gpu, code):
    eval(f"torch.cuda.{code}")
    assert torch.cuda.is_initialized()
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "True"


def test_a_child_of_a_forked_child_that_used_a_gpu_cannot_use_one(gpu):
    def in_grandchild():
        torch.cuda.init()
        return in_forked_child(use_gpu)

    assert in_forked_child(in_grandchild).startswith("RuntimeError: Cannot re-initialize CUDA")


def test_asking_for_gpus_makes_later_forks_bad_unless_nvml_answers(gpu, monkeypatch):
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    assert torch.cuda.is_available()
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "False"
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK")
    assert torch.cuda.is_available()
    assert in_forked_child(torch.cuda._is_in_bad_fork) == "True"


@pytest.mark.parametrize(
    "code", ["torch.empty(2, pin_memory=True)", "torch.zeros(2, pin_memory=True)", "torch.ones(2).pin_memory()"]
)
def test_a_forked_child_can_pin_memory_unless_its_parent_had_used_a_gpu(gpu, code):
    assert in_forked_child(lambda: eval(code).is_pinned()) == "True"
    torch.cuda.init()
    assert in_forked_child(lambda: eval(code)).startswith("RuntimeError: Cannot re-initialize CUDA")


def test_the_active_runtime_is_watched(gpu):
    assert processes._watching == [gpu.runtime]


def test_a_started_program_is_reported_as_unchecked(gpu):
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert gpu.session.report(gpu.sites).incomplete == (
        f"a program started with `{os.path.basename(sys.executable)}` was not checked",
    )
