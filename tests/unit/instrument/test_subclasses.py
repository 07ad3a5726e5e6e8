"""Constructing subclasses of torch.Tensor, also under a dispatch mode."""

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
def test_a_subclass_can_be_constructed(mode, make):
    assert type(make()) in {Plain, Named}


def test_a_constructed_subclass_has_its_values_and_attributes(mode):
    made = Named([1.0, 2.0], "a")
    assert (made.tolist(), made.label) == ([1.0, 2.0], "a")
    assert Plain(2, 3).shape == (2, 3)
    assert type(Plain([1.0]) + 1) is Plain


def test_a_plain_tensor_is_constructed_as_usual(mode):
    assert type(torch.Tensor([1.0])) is torch.Tensor
    assert type(torch.nn.Parameter(Plain([1.0]))) is Plain


def test_undo_restores_the_constructor():
    before = torch.Tensor.__new__
    patches = Patches()
    install_subclasses(patches)
    patches.undo()
    assert torch.Tensor.__new__ is before
    assert Named([1.0], "a").tolist() == [1.0]


def test_the_patched_constructor_has_the_generic_signature_the_compiler_expects(mode):
    kinds = [parameter.kind for parameter in inspect.signature(torch.Tensor.__new__).parameters.values()]
    assert kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
