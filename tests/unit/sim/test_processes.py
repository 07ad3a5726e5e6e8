"""Processes that the program starts."""

import os
import subprocess
import sys

import torch

from syncheck.sim import processes


def test_a_forked_child_is_not_checked(gpu):
    x = torch.ones(3)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            x + 1
            torch.ones(2).add_(1)
            answer = b"ok" if gpu.runtime.is_forked and not gpu.runtime.is_checking else b"watched"
            try:
                torch.ones(1).cuda()
                answer = b"no error"
            except RuntimeError as error:
                answer = answer if "forked subprocess" in str(error) else b"wrong"
            os.write(writer, answer)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 20) == b"ok"
    os.close(reader)
    os.close(writer)
    assert gpu.runtime.is_checking


def test_the_active_runtime_is_watched(gpu):
    assert processes._watching == [gpu.runtime]


def test_a_started_program_is_reported_as_unchecked(gpu):
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert gpu.session.report(gpu.sites).incomplete == (
        f"a program started with `{os.path.basename(sys.executable)}` was not checked",
    )
