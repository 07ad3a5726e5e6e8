"""Processes that the program starts: forked ones cannot use CUDA, and are left alone."""

import os
import subprocess
import sys

import pytest
import torch

from syncheck.cuda import processes
from syncheck.instrument.patching import Patches


@pytest.fixture
def watched(gpu):
    patches = Patches()
    processes.install_processes(gpu.cuda.reporter, patches)
    yield gpu
    patches.undo()


def test_a_forked_child_is_left_alone(watched):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            torch.ones(2).add_(1)
            os.write(writer, b"checked" if watched.cuda.is_checking else b"alone")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"alone"
    os.close(reader)
    os.close(writer)
    assert watched.cuda.is_checking


def test_a_program_that_is_started_is_named(watched):
    subprocess.run([sys.executable, "-c", ""], check=True)
    (reason,) = watched.report().incomplete
    assert "was not checked" in reason
    watched.monitor.session._incomplete.clear()


def test_afterwards_nothing_is_watched(gpu):
    patches = Patches()
    processes.install_processes(gpu.cuda.reporter, patches)
    patches.undo()
    assert processes._watching == []
