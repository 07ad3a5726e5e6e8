"""Higher-order operators in versions of torch whose modes do not support them by themselves."""

import pytest
import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.higher_order import install_higher_order_operators
from syncheck.instrument.patching import Patches


class Recording(TorchDispatchMode):
    """Records the operators that it receives."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name() if isinstance(func, torch._ops.OpOverload) else func._name)
        return "result" if isinstance(func, HigherOrderOperator) else func(*args, **(kwargs or {}))


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.undo()


def call_under(mode):
    with mode:
        return torch._higher_order_ops.invoke_quant_packed(lambda x: (x,), torch.ones(2))


def test_a_mode_with_support_receives_a_higher_order_operator(patches):
    install_higher_order_operators(patches)
    mode = Recording()
    assert call_under(mode) == "result"
    assert mode.names[-1:] == ["invoke_quant_packed"]


def test_an_older_torch_gets_the_support_until_it_is_undone(patches, monkeypatch):
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        monkeypatch.delattr(TorchDispatchMode, "supports_higher_order_operators")
    original = HigherOrderOperator.dispatch
    install_higher_order_operators(patches)
    assert HigherOrderOperator.dispatch is not original
    mode = Recording()
    assert call_under(mode) == "result"
    assert mode.names[-1:] == ["invoke_quant_packed"]
    patches.undo()
    assert HigherOrderOperator.dispatch is original


def test_a_newer_torch_is_left_alone(patches, monkeypatch):
    monkeypatch.setattr(TorchDispatchMode, "supports_higher_order_operators", False, raising=False)
    original = HigherOrderOperator.dispatch
    install_higher_order_operators(patches)
    assert HigherOrderOperator.dispatch is original
