"""A collective running on a communication stream."""

import gc
import weakref

import torch

from syncheck.sim.started import StartedCollective


def test_its_tensors_live_until_they_are_released():
    x = torch.ones(2)
    started = StartedCollective(None, 1, 2, [x], "0")
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    started.tensors.clear()
    assert alive() is None


def test_it_starts_unqueried_and_is_not_a_barrier():
    started = StartedCollective(None, 1, 2, [], "")
    assert (started.was_queried, started.is_barrier) == (False, False)
