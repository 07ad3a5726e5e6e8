"""Torch's own samples of its operators."""

import sys
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch


def operator_table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return torch's table of operators, which needs a module for its own tests that users do not have."""
    stand_in: Any = ModuleType("expecttest")
    stand_in.TestCase, stand_in.assert_expected_inline = unittest.TestCase, None
    monkeypatch.setitem(sys.modules, "expecttest", sys.modules.get("expecttest", stand_in))
    return pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db


def samples_of(entry: Any, device: str, count: int) -> Iterator[Any]:
    """Yield samples of an entry of the table, with gradients where the operator has them."""
    dtype = next((d for d in (torch.float32, torch.int64) if d in entry.supported_dtypes(device)), None)
    needs_grad = dtype is torch.float32 and entry.supports_autograd
    samples = entry.sample_inputs_func(entry, device, dtype, needs_grad) if dtype else ()
    for _, sample in zip(range(count), samples, strict=False):
        yield sample


def run_sample(entry: Any, sample: Any) -> None:
    """Run an operator on a sample, and a backward pass where there is a gradient."""
    result = entry.op(sample.input, *sample.args, **sample.kwargs)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
