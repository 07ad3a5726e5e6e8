"""Subclasses of torch.Tensor are made by a call, also under a dispatch mode."""

import inspect

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.patching import Patches
from syncheck.instrument.subclasses import install_subclasses


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, data, label=""):
        return super().__new__(cls, data)

    def __init__(self, data, label=""):
        self.label = label


class Plain(torch.Tensor):
    pass


@pytest.fixture
def mode():
    patches = Patches()
    install_subclasses(patches)
    with Watching():
        yield
    patches.undo()


MAKERS = {
    "values": lambda: Plain([1.0, 2.0]),
    "sizes": lambda: Plain(2, 3),
    "nothing": Plain,
    "a tensor": lambda: Plain(torch.ones(2)),
    "its own __new__": lambda: Named([1.0], "a"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
def test_a_subclass_is_made_by_a_call(mode, make):
    assert type(make()) in {Plain, Named}


def test_it_has_its_values_and_attributes(mode):
    made = Named([1.0, 2.0], "a")
    assert (made.tolist(), made.label) == ([1.0, 2.0], "a")
    assert Plain(2, 3).shape == (2, 3)
    assert type(Plain([1.0]) + 1) is Plain


def test_a_plain_tensor_is_made_as_ever(mode):
    assert type(torch.Tensor([1.0])) is torch.Tensor
    assert type(torch.nn.Parameter(Plain([1.0]))) is Plain


def test_afterwards_all_is_as_before():
    before = torch.Tensor.__new__
    patches = Patches()
    install_subclasses(patches)
    patches.undo()
    assert torch.Tensor.__new__ is before
    assert Named([1.0], "a").tolist() == [1.0]


def test_its_signature_agrees_with_any_as_the_compiler_wants_when_it_is_imported(mode):
    kinds = [parameter.kind for parameter in inspect.signature(torch.Tensor.__new__).parameters.values()]
    assert kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
