"""GPUs that other programs also use."""

import pytest
import torch

from syncheck.cuda.shared_gpus import shared

GIB = 1 << 30


@pytest.fixture
def memory(monkeypatch):
    """Return a dict from device to (free, total, reserved by torch), which the test fills."""
    known = {}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: known[device][:2])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: known[device][2])
    return known


def test_memory_held_by_other_programs_is_reported(memory):
    memory.update({0: (60 * GIB, 80 * GIB, 18 * GIB), 1: (30 * GIB, 80 * GIB, 10 * GIB)})
    (text,) = shared([0, 1])
    assert text.startswith("another program may be using cuda:1, as 40 GiB of it")


def test_the_programs_own_memory_is_not_sharing(memory):
    memory[0] = (10 * GIB, 80 * GIB, 69 * GIB)
    assert list(shared([0])) == []


def test_a_gpu_that_fails_to_answer_is_skipped(memory, monkeypatch):
    def fail(device):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "mem_get_info", fail)
    assert list(shared([0])) == []
