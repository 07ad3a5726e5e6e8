"""Triton kernels launched directly."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch._higher_order_ops import triton_kernel_wrap

from syncheck.cuda import devices
from syncheck.cuda.triton import Triton
from syncheck.instrument.patching import Patches

FINDERS = ("identify_accessed_tensors", "identify_mutated_tensors")


class JITFunction:
    """Stand-in for a Triton kernel."""

    arg_names = ("x", "y", "n")
    __name__ = "add_kernel"

    def run(self, *args, **kwargs):
        return "ran"


@pytest.fixture
def kernel(gpu, monkeypatch):
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    module = ModuleType("triton.runtime.jit")
    module.JITFunction = type("JITFunction", (JITFunction,), dict(vars(JITFunction)))
    for name, value in {
        "triton": ModuleType("triton"),
        "triton.runtime": ModuleType("r"),
        module.__name__: module,
    }.items():
        monkeypatch.setitem(sys.modules, name, value)
    for name in FINDERS:
        monkeypatch.delattr(triton_kernel_wrap, name, raising=False)
    cuda, patches = gpu.cuda, Patches()
    Triton(cuda.reporter, cuda.streams, cuda.memory, cuda.launches, patches).install()
    yield module.JITFunction()
    patches.undo()


def writes(gpu):
    return [(call[2], [write for *_, write in call[3]]) for call in gpu.monitor.named("launch") if "triton" in call[2]]


def find(monkeypatch, written):
    monkeypatch.setattr(triton_kernel_wrap, FINDERS[1], lambda function, given, _: written, raising=False)


def test_written_arguments_are_inferred_from_the_kernels_code(gpu, kernel, monkeypatch):
    find(monkeypatch, ["y"])
    assert kernel.run(torch.ones(4), torch.ones(4), 4) == "ran"
    assert writes(gpu) == [("triton::add_kernel", [False, True])]


def test_all_arguments_count_as_written_if_the_code_cannot_be_read(gpu, kernel):
    kernel.run(torch.ones(4), y=torch.ones(4), n=4)
    assert writes(gpu) == [("triton::add_kernel", [True, True])]
    assert any("writes could not be determined" in note for note in gpu.report().notes)


def test_kernels_without_tensors_and_warmups_are_not_reported(gpu, kernel, monkeypatch):
    find(monkeypatch, [])
    kernel.run(1, 2, 3)
    kernel.run(torch.ones(4), torch.ones(4), 4, warmup=True)
    assert writes(gpu) == []


def test_the_code_is_read_once_per_combination_of_argument_kinds(gpu, kernel, monkeypatch):
    seen = []
    monkeypatch.setattr(triton_kernel_wrap, FINDERS[1], lambda *_: seen.append(1) or [], raising=False)
    for n in (4, 4, 5):
        kernel.run(torch.ones(4), torch.ones(4), n)
    assert len(seen) == 2


def test_nothing_is_hooked_without_triton(gpu, monkeypatch):
    for name in ("triton", "triton.runtime", "triton.runtime.jit"):
        monkeypatch.setitem(sys.modules, name, None)
    cuda = gpu.cuda
    Triton(cuda.reporter, cuda.streams, cuda.memory, cuda.launches, SimpleNamespace()).install()
