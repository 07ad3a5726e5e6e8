"""Processes that the program starts."""

import os
import subprocess
import sys

import pytest
import torch

from syncheck.sim import processes


def test_a_forked_child_is_not_checked(gpu):
    x = torch.ones(3)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            x + 1
            torch.ones(2).add_(1)
            answer = b"ok" if gpu.runtime.is_forked and not gpu.runtime.is_checking else b"watched"
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


def test_the_active_runtime_is_watched(gpu):
    assert processes._watching == [gpu.runtime]


def test_a_started_program_is_reported_as_unchecked(gpu):
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert gpu.session.report(gpu.sites).incomplete == (
        f"a program started with `{os.path.basename(sys.executable)}` was not checked",
    )
