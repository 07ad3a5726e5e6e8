"""Registration of models by function name and value type."""

import pytest

from syncheck.lint.interp import registry
from syncheck.lint.interp.registry import (
    call_by_name,
    call_method,
    canonical,
    models,
    models_below,
    models_in,
    models_methods,
)
from syncheck.lint.interp.values import UNKNOWN, Constant, Sequence, Value
from tests.unit.lint.program import call


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    """Start without models."""
    for name in ("_functions", "_modules", "_packages", "_methods"):
        monkeypatch.setattr(registry, name, {})


def called(path):
    found = call_by_name(None, path, call())
    return None if found is None else found.value


def test_the_most_specific_model_is_called():
    models("lib.a.f")(lambda evaluator, call: Constant("function"))
    models_in("lib.a")(lambda evaluator, path, call: Constant(f"in {path}"))
    models_below("lib")(lambda evaluator, path, call: Constant(f"below {path}"))
    assert called("lib.a.f") == "function"
    assert called("lib.a.g") == "in lib.a.g"
    assert called("lib.b.c.d") == "below lib.b.c.d"
    assert called("lib.a.b.f") == "below lib.a.b.f"  # not directly in it
    assert called("other.f") is None
    assert called("f") is None


def test_a_wildcard_matches_any_module():
    models("*.get_accelerator")(lambda evaluator, call: Constant("any"))
    assert called("deepspeed.accelerator.get_accelerator") == "any"
    assert called("get_accelerator") == "any"


def test_a_model_may_have_several_names_and_decline():
    models("a.f", "b.f")(lambda evaluator, call: None)
    assert called("a.f") is None
    assert called("b.f") is None


def test_methods_are_found_by_value_type_then_for_any_value():
    models_methods(Value)(lambda evaluator, owner, name, call: Constant(f"any {name}"))
    models_methods(Sequence)(lambda evaluator, owner, name, call: Constant(f"list {name}"))
    assert call_method(None, Sequence([]), "append", call()).value == "list append"
    assert call_method(None, UNKNOWN, "append", call()).value == "any append"
    assert call_method(None, Constant(1), "append", call()).value == "any append"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torch.xpu.Stream", "torch.cuda.Stream"),
        ("torch_npu.npu.synchronize", "torch.cuda.synchronize"),
        ("torch.accelerator.current_stream", "torch.cuda.current_stream"),
        ("torch.cuda.Stream", "torch.cuda.Stream"),
        ("torch.xpus.Stream", "torch.xpus.Stream"),
        ("mytorch.xpu.Stream", "mytorch.xpu.Stream"),
    ],
)
def test_names_of_other_backends_are_canonicalized(path, name):
    assert canonical(path) == name
