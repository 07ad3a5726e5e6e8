"""numpy's functions that write to a given array."""

import pytest

from syncheck.lint.models import arrays
from tests.unit.lint.program import calls_of

PINNED = """
import numpy as np
t = torch.empty(3, pin_memory=True)
o = torch.empty(3, pin_memory=True)
a, b = t.numpy(), o.numpy()
"""


@pytest.mark.parametrize("name", arrays._WRITING)
def test_a_function_writes_to_its_first_argument_and_reads_the_others(name):
    (call,) = calls_of(f"np.{name}(a[:2], b)", PINNED)
    assert "r2" in call
    assert "w1" in call


@pytest.mark.parametrize("name", arrays._WITH_OUT)
def test_a_function_writes_to_out(name):
    (call,) = calls_of(f"np.{name}(b, out=a)", PINNED)
    assert "r2" in call
    assert "w1" in call


def test_without_out_nothing_is_written():
    assert not any("w1" in call or "w2" in call for call in calls_of("np.add(a, b)", PINNED))


def test_the_array_itself_is_the_result():
    (_, call) = calls_of("c = np.add(b, b, out=a)\nc.fill(0)", PINNED)
    assert "w1" in call
