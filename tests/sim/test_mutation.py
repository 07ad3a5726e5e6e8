"""`bench/mutation.py` deletes the synchronizations of a library one by one and runs a driver program."""

import subprocess
from pathlib import Path

from tests import warm

ROOT = Path(__file__).parents[2]
LIBRARY = """
import torch


def doubled(x, side, late=False):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    side.synchronize()
    if late:
        torch.cuda.synchronize()
    return y
"""
DRIVER = '''
"""Two numbers.

repository: owner/name
devices: 1
files: somelib/streams.py
"""

import torch
from somelib.streams import doubled

x = torch.full((1000,), 3.0, device="cuda") + 1
print(doubled(x, torch.cuda.Stream()).sum().item())
'''
EXPECTED = [
    "somelib/streams.py:6: side.wait_stream(torch.cuda.current_stream()): matters, reported SYN101",
    "somelib/streams.py:9: torch.cuda.current_stream().wait_stream(side): no value changes, not reported ",
    "somelib/streams.py:10: side.synchronize(): no value changes, not reported ",
    "somelib/streams.py:12: torch.cuda.synchronize(): the program never gets there ",
]


def test_each_synchronization_of_a_library_is_judged_and_the_checkout_is_unchanged(tmp_path):
    package = tmp_path / "owner+name" / "somelib"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "streams.py").write_text(LIBRARY)
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.lstrip())
    command = [warm.PYTHON, "bench/mutation.py", "--verbose", "--schedules", "1", "--checkouts", tmp_path, driver]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(EXPECTED)] == EXPECTED
    assert (package / "streams.py").read_text() == LIBRARY


def test_a_missing_checkout_is_named(tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.lstrip())
    command = [warm.PYTHON, "bench/mutation.py", "--checkouts", tmp_path, driver]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "check owner/name out there" in done.stderr
