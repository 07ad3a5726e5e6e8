"""The tag of a storage."""

import torch

from syncheck.sim.allocation import Allocation


def test_memory_of_a_moved_storage_keeps_its_identity_but_no_storage(gpu):
    x = torch.ones(4, device="cuda")
    tag = gpu.runtime.memory.of(x)
    tag.pinned = True
    old = tag.moved()
    assert isinstance(old, Allocation)
    assert (old.ident, old.device, old.n_bytes, old.home, old.pool) == (tag.ident, 0, 16, tag.home, tag.pool)
    assert not old.pinned
    assert not hasattr(old, "reference")
