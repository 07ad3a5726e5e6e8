"""Torch's own operator samples."""

import sys
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map


def import_operator_table() -> Any:
    """Return torch's operator table, which imports a test dependency that users do not have installed.

    Tests use the fixture `operator_table`: the table keeps for good whether a GPU was there when it was imported.
    """
    stand_in: Any = ModuleType("expecttest")
    stand_in.TestCase, stand_in.assert_expected_inline = unittest.TestCase, None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "expecttest", sys.modules.get("expecttest", stand_in))
        return pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db


def samples_of(entry: Any, device: str, count: int) -> Iterator[Any]:
    """Yield samples of a table entry, with gradients if the operator supports them."""
    dtype = next((d for d in (torch.float32, torch.int64) if d in entry.supported_dtypes(device)), None)
    needs_grad = dtype is torch.float32 and entry.supports_autograd
    samples = entry.sample_inputs_func(entry, device, dtype, needs_grad) if dtype else ()
    for _, sample in zip(range(count), samples, strict=False):
        yield sample


def run_sample(entry: Any, sample: Any) -> None:
    """Run an operator on a sample, and a backward pass if the result requires gradients."""
    result = entry.op(sample.input, *sample.args, **sample.kwargs)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()


_LEFT_OUT = (
    *("rand", "normal", "bernoulli", "multinomial", "cauchy", "exponential", "geometric", "jiterator"),
    *("pinverse", "nn.functional.bilinear"),  # autocast wraps them, on CPUs or GPUs: a mode sees only inner operators
)


def comparable_samples(table: Any, device: str, count: int) -> Iterator[tuple[Any, Any]]:
    """Yield operators with real and complex samples, except those with random or uninitialized results."""
    for entry in table:
        if entry.name.startswith(_LEFT_OUT) or "random" in entry.name or "empty" in entry.name:
            continue
        for dtype in (torch.float32, torch.complex64):
            if entry.supports_dtype(dtype, device):
                _seed()
                samples = entry.sample_inputs_func(entry, device, dtype, requires_grad=False)
                yield from ((entry, sample) for _, sample in zip(range(count), samples, strict=False))


def result_of(entry: Any, sample: Any) -> list[Any]:
    """Return copies of the tensors that an operator returns for a sample, or its error message."""
    _seed()
    given, args, kwargs = tree_map(_copied, (sample.input, sample.args, sample.kwargs))
    try:
        result = entry.op(given, *args, **kwargs)
    except (RuntimeError, TypeError) as error:
        return [str(error)]
    return [leaf.detach().resolve_conj().clone() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _seed() -> None:
    """Seed the generators in use, unlike `torch.manual_seed`, which formats a traceback for each absent device."""
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def are_alike(ours: list[Any], theirs: list[Any]) -> bool:
    """Return whether two results have the same types and, for dense tensors, close values."""
    return len(ours) == len(theirs) and all(_is_alike(a, b) for a, b in zip(ours, theirs, strict=True))


def _is_alike(a: Any, b: Any) -> bool:
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)) or a.layout != torch.strided:
        return type(a) is type(b)
    wide = torch.complex128 if a.is_complex() else torch.float64
    return a.dtype == b.dtype and torch.allclose(a.to(wide), b.to(wide), rtol=1e-4, atol=1e-4, equal_nan=True)
