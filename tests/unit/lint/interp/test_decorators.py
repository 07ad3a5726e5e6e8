"""Clues in the names of decorators."""

import pytest

from syncheck.lint.interp.decorators import changes_nothing, is_property


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


@pytest.mark.parametrize("decorator", ["property", "cached_property", "functools.cached_property"])
def test_properties_are_recognized(decorator):
    assert is_property(decorator)


@pytest.mark.parametrize("decorator", ["", "size.setter", "my.property", "property_of(x)", "cached_property(f)"])
def test_other_decorators_make_no_property(decorator):
    assert not is_property(decorator)
