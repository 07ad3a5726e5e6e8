"""Operators during which torch's GPU trace is suppressed: on torch's own samples they fire no callback."""

import sys
import threading
import unittest
from collections import Counter
from types import ModuleType

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.instrument.plan import plan_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

KINDS = ("EventRecord", "EventWait", "DeviceSynchronization", "StreamSynchronization", "EventSynchronization")
MOST_SAMPLES = 1


def samples_of_torch(monkeypatch):
    """Return torch's table of operators, which needs a module for its own tests that users do not have."""
    stand_in = ModuleType("expecttest")
    stand_in.TestCase, stand_in.assert_expected_inline = unittest.TestCase, None
    monkeypatch.setitem(sys.modules, "expecttest", sys.modules.get("expecttest", stand_in))
    return pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db


class Listening(TorchDispatchMode):
    """Records which operators fire a callback."""

    def __init__(self):
        super().__init__()
        self.running = threading.local()
        self.ran, self.fired = set(), Counter()

    def listen(self, *_):
        func = getattr(self.running, "func", None)
        if func is not None:
            self.fired[func] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ran.add(func)
        self.running.func = func
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.running.func = None


def run_sample(operator, sample):
    result = operator(sample.input, *sample.args, **sample.kwargs)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()


def test_silent_operators_have_nothing_to_tell(monkeypatch):
    mode = Listening()
    table = samples_of_torch(monkeypatch)
    for kind in KINDS:
        monkeypatch.setattr(getattr(gpu_trace, f"{kind}Callbacks"), "callback_list", [mode.listen])
    torch._C._activate_gpu_trace()
    for entry in table:
        dtype = next((d for d in (torch.float32, torch.int64) if d in entry.supported_dtypes("cuda")), None)
        needs_grad = dtype is torch.float32 and entry.supports_autograd
        samples = entry.sample_inputs("cuda", dtype, requires_grad=needs_grad) if dtype else ()
        for _, sample in zip(range(MOST_SAMPLES), samples, strict=False):
            try:
                with mode:
                    run_sample(entry.op, sample)
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                continue  # what it needs is not installed
    watched = [func for func in mode.ran if not DispatchPlan(func, plan_of(func), None).listens]
    watched.remove(torch.ops.aten._to_copy.default)  # between devices it is run by other code
    assert len(watched) > 200
    assert [str(func) for func in watched if mode.fired[func]] == []
    assert sum(mode.fired.values()) > 20  # others have
