"""Replacement of methods of torch.Tensor."""

import pytest
import torch

from syncheck.instrument.methods import overridable, replace_method, replace_property
from syncheck.instrument.patching import Patches


@pytest.fixture
def seen():
    patches, seen = Patches(), []

    def make(original):
        def tolist(tensor):
            seen.append(type(tensor).__name__)
            return original(tensor)

        return tolist

    replace_method(patches, "tolist", make)
    yield seen
    patches.undo()


def test_a_replacement_wraps_the_original_and_keeps_its_name(seen):
    assert torch.ones(2).tolist() == [1, 1]
    assert seen == ["Tensor"]
    assert torch.Tensor.tolist.__name__ == "tolist"


def test_an_overriding_subclass_takes_precedence(seen):
    class OverridingTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mine" if func.__name__ == "tolist" else super().__torch_function__(func, types, args, kwargs or {})

    assert torch.ones(2).as_subclass(OverridingTensor).tolist() == "mine"
    assert seen == []


def test_a_function_mode_takes_precedence(seen):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return "mode"

    with Mode():
        assert torch.ones(2) == "mode"
    x = torch.ones(2)
    with Mode():
        assert x.tolist() == "mode"


def test_dispatch_tables_with_the_original_function_still_work():
    handled = {torch.Tensor.tolist: "in a table"}

    class Table(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return handled.get(func, NotImplemented)

    x = torch.ones(2).as_subclass(Table)
    patches = Patches()
    replace_method(patches, "tolist", lambda original: original)
    try:
        assert x.tolist() == "in a table"
    finally:
        patches.undo()


def test_a_call_that_nothing_implements_is_an_error(seen):
    class Table(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation found"):
        torch.ones(2).as_subclass(Table).tolist()


def test_a_class_that_calls_torchs_own_function_is_consulted_once(seen):
    queries = []

    class Calling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            queries.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    assert torch.ones(2).as_subclass(Calling).tolist() == [1, 1]
    assert queries == [torch.Tensor.tolist]


def test_a_replaced_function_consults_overriding_classes():
    class OverridingTensor:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, kwargs

    absolute = overridable(torch.abs, lambda value: value)
    assert absolute(OverridingTensor(), other=1) == (absolute, {"other": 1})
    assert absolute(-1) == -1


def test_a_replaced_property_consults_overriding_classes():
    patches, queries = Patches(), []
    replace_property(patches, "is_cuda", lambda tensor: f"computed for {tensor.numel()}")

    class RecordingTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            queries.append(func == torch.Tensor.is_cuda.__get__)
            return super().__torch_function__(func, types, args, kwargs or {})

    try:
        assert torch.ones(2).is_cuda == "computed for 2"
        assert torch.ones(2).as_subclass(RecordingTensor).is_cuda == "computed for 2"
        assert queries == [True]
        assert torch.Tensor.is_cuda.fget.__name__ == "is_cuda"
    finally:
        patches.undo()
    assert torch.ones(2).is_cuda is False
