"""Imports that are exempt from cycle collection."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc
from syncheck.system.permanent import permanent_imports

{before}
generations = []
gc.callbacks.append(lambda phase, info: generations.append(info["generation"]))
try:
    with permanent_imports():
        kept = [[] for _ in range(100_000)]
        {inside}
except ImportError:
    pass
assert not generations, generations
assert gc.get_freeze_count() >= 100_000
print(gc.isenabled())
"""


@pytest.mark.parametrize(
    ("before", "inside", "is_enabled"), [("", "", True), ("gc.disable()", "", False), ("", "raise ImportError", True)]
)
def test_nothing_is_collected_in_the_block_and_the_collector_is_as_before(before, inside, is_enabled):
    program = PROGRAM.format(before=before, inside=inside)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(is_enabled)
