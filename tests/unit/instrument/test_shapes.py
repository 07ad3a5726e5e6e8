"""Shapes of batches of any structure, obtained without calling program code."""

from collections import UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.overrides import TorchFunctionMode

from syncheck.instrument.shapes import shapes_of

Pair = namedtuple("Pair", "inputs labels")


@dataclass
class Batch:
    inputs: torch.Tensor
    labels: torch.Tensor


MAKERS = {
    "a tensor": lambda x, y: x,
    "a tuple": lambda x, y: (x, y),
    "a list": lambda x, y: [x, y],
    "a dictionary": lambda x, y: {"inputs": x, "labels": y},
    "a nested one": lambda x, y: {"inputs": [x, (y, 3)], "names": ["a", "b"]},
    "a named tuple": Pair,
    "a data class": Batch,
    "a dictionary of a class, as tokenizers give": lambda x, y: UserDict(inputs=x, labels=y),
    "an object that holds one that holds a dictionary": lambda x, y: SimpleNamespace(store=SimpleNamespace(of={1: x})),
    "a packed sequence": lambda x, y: pack_sequence([x, y], enforce_sorted=False),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_changed_shape_is_detected_and_changed_values_are_not(make):
    usual = shapes_of(make(torch.zeros(8, 4), torch.zeros(8, 4)))
    assert usual
    assert shapes_of(make(torch.ones(8, 4), torch.ones(8, 4))) == usual
    assert shapes_of(make(torch.zeros(7, 4), torch.zeros(8, 4))) != usual
    assert hash(usual) is not None


def test_a_changed_dtype_is_detected():
    assert shapes_of(torch.zeros(2)) != shapes_of(torch.zeros(2, dtype=torch.float16))


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, [1, 2, 3], object(), torch.nn.Linear, iter([1])])
def test_a_value_without_tensors_has_no_shape(value):
    assert shapes_of(value) == ()


def test_recursive_and_large_values_are_bounded():
    ring = [torch.zeros(1)]
    ring.append(ring)
    assert len(shapes_of(ring)) <= 64
    assert len(shapes_of([[torch.zeros(1)] * 1000] * 1000)) <= 64


class Watched(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(func)


class Everything(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)


class Lazy(dict):
    def values(self):
        raise AssertionError

    def __getattr__(self, name):
        raise AssertionError(name)


class Rows(list):
    def __getitem__(self, at):
        raise AssertionError

    def __iter__(self):
        raise AssertionError


def test_no_program_code_runs():
    batch = Lazy(rows=Rows([torch.zeros(2)]), own=torch.zeros(3).as_subclass(Watched))
    with Everything():
        found = shapes_of(batch)
    assert {tuple(shape) for shape, _ in found} == {(2,), (3,)}
