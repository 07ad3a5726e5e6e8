"""Interrupting the main thread between two bytecodes; a window starts only where no torch call is in progress."""

import builtins
import importlib
import sys
import threading
import time

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.main_thread import call_in_main_thread, is_between_calls
from syncheck.source.frames import frame_at


def request_while_working(act, work):
    """Request a call from another thread while this one works; return the thread in which it ran."""
    ran = []

    def request():
        call_in_main_thread(lambda frame: (act(frame), ran.append(threading.current_thread())))

    thread = threading.Thread(target=request)
    thread.start()
    while not ran:
        work()
    thread.join()
    return ran[0]


def test_the_call_runs_in_the_busy_main_thread():
    names = []

    def work():
        for _ in range(100):
            pass

    thread = request_while_working(lambda frame: names.append(frame.f_globals["__name__"]), work)
    assert thread is threading.main_thread()
    assert names[0] in {__name__, "threading"}  # the starting of the requesting thread waits in `threading`


def test_a_keyboard_interrupt_inside_the_call_is_not_lost():
    def interrupted(_):
        raise KeyboardInterrupt

    threading.Thread(target=lambda: call_in_main_thread(interrupted)).start()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(30)


def here():
    return is_between_calls(frame_at(1))


def test_program_code_and_module_forwards_are_between_calls():
    found = []

    class Model(torch.nn.Module):
        def forward(self, x):
            found.append(here())
            return x + 1

    torch.nn.Sequential(Model(), Model())(torch.ones(2))
    with torch.no_grad():
        found.append(here())

    @torch.inference_mode()
    def decorated():
        found.append(here())

    decorated()
    assert found == [True] * 4


class Logging(TorchDispatchMode):
    def __init__(self, found):
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found.append(here())
        return func(*args, **(kwargs or {}))


class OverridingTensor(torch.Tensor):
    found: list[bool]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.found.append(here())
        return super().__torch_function__(func, types, args, kwargs or {})


class Double(torch.autograd.Function):
    found: list[bool]

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        Double.found.append(here())
        return gradient * 2


def in_a_dispatch_mode(found):
    with Logging(found):
        torch.ones(2) + 1


def in_a_tensor_subclass(found):
    OverridingTensor.found = found
    torch.ones(2).as_subclass(OverridingTensor) + 1


def in_a_backward_pass(found):
    Double.found = found
    Double.apply(torch.ones(2, requires_grad=True)).sum().backward()


def in_a_backward_hook(found):
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: found.append(here()))
    (x * 2).sum().backward()


def in_an_optimizer_step(found):
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: found.append(here()))
    optimizer.step()


def in_an_import(found):
    builtins.syncheck_found = lambda: found.append(here())
    try:
        importlib.import_module("syncheck_imported_here")
    finally:
        del builtins.syncheck_found


@pytest.mark.parametrize(
    "place",
    [
        in_a_dispatch_mode, in_a_tensor_subclass, in_a_backward_pass, in_a_backward_hook, in_an_optimizer_step,
        in_an_import,
    ],
)  # fmt: skip
def test_code_inside_an_unfinished_operation_is_not_between_calls(place, tmp_path, monkeypatch):
    (tmp_path / "syncheck_imported_here.py").write_text("import builtins\nbuiltins.syncheck_found()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    place(found)
    sys.modules.pop("syncheck_imported_here", None)
    assert found
    assert not any(found)
