"""Child processes: forked ones cannot use CUDA and are not checked."""

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


def test_a_forked_child_is_not_checked(watched):
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


def test_a_started_program_is_reported_as_unchecked(watched):
    subprocess.run([sys.executable, "-c", ""], check=True)
    (reason,) = watched.report().incomplete
    assert "was not checked" in reason
    watched.monitor.session._incomplete.clear()


def test_undo_stops_watching_processes(gpu):
    patches = Patches()
    processes.install_processes(gpu.cuda.reporter, patches)
    patches.undo()
    assert processes._watching == []
