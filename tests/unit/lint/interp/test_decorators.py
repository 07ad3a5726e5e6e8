"""Clues in the names of decorators."""

import ast

import pytest

from syncheck.lint.interp.decorators import changes_nothing, marks, returns_its_argument
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import Function


@pytest.mark.parametrize(
    "decorator",
    [
        "classmethod",
        "abc.abstractmethod",
        "functools.wraps(f)",
        "torch.compile",
        "torch.compile(fullgraph=True)",
        "torch.compiler.disable",
        "torch.jit.script",
        "torch.no_grad()",
        "torch.inference_mode()",
        "torch.amp.custom_fwd(device_type='cuda')",
        "pytest.mark.parametrize('n', [1])",
        "size.setter",
        "dataclass(frozen=True)",
        "nvtx.annotate('step')",
        "nvtx_range",
        "torch.cuda.nvtx.range('step')",
        "instrument_with('step')",
    ],
)
def test_known_decorators_leave_the_order_unchanged(decorator):
    assert changes_nothing(decorator)


@pytest.mark.parametrize(
    "decorator",
    ["", "synchronized", "contextmanager", "functools.lru_cache", "on_stream(side)", "my_no_grad", "compiled", "jit"],
)
def test_other_decorators_may_change_the_order(decorator):
    assert not changes_nothing(decorator)


def kind(decorator):
    function = Function(ast.parse("def f(): pass").body[0], Scope(), {})
    is_marked = marks(decorator, function)
    flags = function.is_static, function.is_of_class, function.is_property, function.is_cached
    assert is_marked is any(flags)
    return flags


@pytest.mark.parametrize(
    ("decorator", "flags"),
    [
        ("staticmethod", (True, False, False, False)),
        ("classmethod", (False, True, False, False)),
        ("property", (False, False, True, False)),
        ("cached_property", (False, False, True, True)),
        ("functools.cached_property", (False, False, True, True)),
    ],
)
def test_kinds_of_methods_are_recognized(decorator, flags):
    assert kind(decorator) == flags


@pytest.mark.parametrize("decorator", ["", "size.setter", "my.property", "property_of(x)", "cached_property(f)"])
def test_other_decorators_make_no_property(decorator):
    assert kind(decorator) == (False, False, False, False)


@pytest.mark.parametrize(
    "decorator",
    ["RUNNERS.register_module()", "register", "register_model", "CustomOp.register('x')", "add_start_docstrings(TEXT)"],
)
def test_registries_return_what_they_get(decorator):
    assert returns_its_argument(decorator)


@pytest.mark.parametrize("decorator", ["", "registered", "on_stream(side)", "unregister_all()", "remote"])
def test_other_decorators_may_return_anything(decorator):
    assert not returns_its_argument(decorator)
