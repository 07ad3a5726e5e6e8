"""When torch's GPU trace can be disabled: for operators that fire no callback on torch's samples, and for memory."""

import threading
from collections import Counter
from functools import partial

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.api import checking
from syncheck.config.options import Options
from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.instrument.plan import plan_of
from tests.torch_samples import run_sample, samples_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

KINDS = ("EventRecord", "EventWait", "DeviceSynchronization", "StreamSynchronization", "EventSynchronization")
MAX_SAMPLES = 1


class CallbackRecorder(TorchDispatchMode):
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


def test_operators_outside_the_trace_fire_no_callback(monkeypatch, operator_table):
    mode = CallbackRecorder()
    for kind in KINDS:
        monkeypatch.setattr(getattr(gpu_trace, f"{kind}Callbacks"), "callback_list", [mode.listen])
    torch._C._activate_gpu_trace()
    for entry in operator_table:
        for sample in samples_of(entry, "cuda", MAX_SAMPLES):
            try:
                with mode:
                    run_sample(entry, sample)
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                continue  # an optional dependency is missing
    watched = [func for func in mode.ran if not DispatchPlan(func, plan_of(func), None).listens]
    watched.remove(torch.ops.aten._to_copy.default)  # copies between devices take another code path
    assert len(watched) > 200
    assert [str(func) for func in watched if mode.fired[func]] == []
    assert sum(mode.fired.values()) > 20  # other operators do fire callbacks


@pytest.mark.parametrize("recorder", ["python", "native"])
def test_events_of_a_backward_pass_reach_python_only_with_the_python_recorder(recorder, monkeypatch):
    """With the native recorder, C++ takes the records and waits, and torch reports no memory events."""
    calls = Counter()
    with checking(Options(backend="cuda", recorder=recorder)) as block:
        for kind in ("MemoryAllocation", "MemoryDeallocation", "EventRecord"):
            registry = getattr(gpu_trace, f"{kind}Callbacks")
            handler = registry.fire_callbacks
            monkeypatch.setattr(registry, "fire_callbacks", partial(_count, calls, kind, handler))
        side = torch.cuda.Stream()
        x = torch.ones(64, 64, device="cuda", requires_grad=True)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x @ x
        torch.cuda.current_stream().wait_stream(side)
        calls.clear()
        (y @ x).sum().backward()
        torch.cuda.synchronize()
        monkeypatch.undo()
    assert block.findings == ()  # the records are known
    assert bool(calls["EventRecord"]) is (recorder == "python")
    assert bool(calls["MemoryAllocation"]) is (recorder == "python")
    assert bool(calls["MemoryDeallocation"]) is (recorder == "python")


@pytest.mark.parametrize("recorder", ["python", "native"])
def test_torchs_own_sanitizer_can_be_enabled_after_a_check(recorder, monkeypatch):
    records = []
    with checking(Options(backend="cuda", recorder=recorder)):
        torch.ones(4, device="cuda").add_(1)
    monkeypatch.setattr(gpu_trace.EventRecordCallbacks, "callback_list", [lambda *event: records.append(event)])
    torch._C._activate_gpu_trace()  # what `torch.cuda._sanitizer.enable_cuda_sanitizer` calls
    torch.cuda.Event().record()
    assert len(records) == 1


def _count(calls, kind, handler, *args):
    calls[kind] += 1
    return handler(*args)
