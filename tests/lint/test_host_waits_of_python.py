"""Python operations, and functions given to other code, after which the host has waited."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

READ = """import asyncio
import torch
async def f(x, pool, loop):
    {source}
    host = y.to("cpu", non_blocking=True)
    done = torch.cuda.current_stream().record_event()
    {wait}
    return host.tolist()
"""
KNOWN, UNKNOWN = "y = x.cuda() * 2", "y = x"


def codes(wait, source=KNOWN):
    found = lint_source("a.py", Text(READ.format(wait=wait, source=source))).findings
    return [finding.rule.code for finding in found if finding.rule.code.startswith("SYN3")]


@pytest.mark.parametrize(
    "wait",
    [
        "sorted([y[0], y[1]])", "k = [1, 2, 3][y.argmax()]", "k = 3 in y", "for _ in range(y.sum().long()): pass",
        "await asyncio.to_thread(done.synchronize)", "await loop.run_in_executor(None, done.synchronize)",
        "pool.submit(done.synchronize).result()", "await asyncio.to_thread(torch.cuda.synchronize)",
        "pool.apply(torch.cuda.synchronize)",
    ],
)  # fmt: skip
def test_the_host_has_waited(wait):
    assert codes(wait) == []


@pytest.mark.parametrize(
    "wait",
    [
        "k = 3 in [1, 2]", "sorted([2, 1])", "sorted([y[0], y[1]], key=id)", "k = {'a': y}['a']",
        "pool.stop(done.query)", "k = y.shape[0]",
    ],
)  # fmt: skip
def test_the_host_has_not_waited(wait):
    assert codes(wait) == ["SYN301"]


@pytest.mark.parametrize(
    "wait", ["assert y.max() < 5", "if torch.isfinite(y).all(): pass", "if not (y == y).all(): raise ValueError"]
)
def test_a_test_of_a_copied_tensor_waits(wait):
    assert codes(wait, UNKNOWN) == []


@pytest.mark.parametrize(
    "wait", ["assert y.shape[0] < 5", "if len(y) > 2: pass", "if y is None: return", "if isinstance(y, list): pass"]
)
def test_a_test_of_its_shape_does_not(wait):
    assert codes(wait, UNKNOWN) == ["SYN301"]
