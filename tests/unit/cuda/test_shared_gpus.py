"""GPUs that other programs use, too."""

import pytest
import torch

from syncheck.cuda.shared_gpus import shared

GIB = 1 << 30


@pytest.fixture
def memory(monkeypatch):
    """(free, total, torch's own) of each device."""
    known = {}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: known[device][:2])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: known[device][2])
    return known


def test_memory_of_others_is_named(memory):
    memory.update({0: (60 * GIB, 80 * GIB, 18 * GIB), 1: (30 * GIB, 80 * GIB, 10 * GIB)})
    (text,) = shared([0, 1])
    assert text.startswith("another program may be using cuda:1, as 40 GiB of it")


def test_what_the_program_has_itself_is_no_sharing(memory):
    memory[0] = (10 * GIB, 80 * GIB, 69 * GIB)
    assert list(shared([0])) == []


def test_a_gpu_that_gives_no_answer_is_passed_over(memory, monkeypatch):
    def fail(device):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "mem_get_info", fail)
    assert list(shared([0])) == []
