"""A collective that runs on a communication stream."""

import gc
import weakref

import torch

from syncheck.sim.started import StartedCollective


def test_its_tensors_live_until_they_are_let_go():
    x = torch.ones(2)
    started = StartedCollective(None, 1, 2, [x], "0")
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    started.tensors.clear()
    assert alive() is None


def test_it_begins_unasked_and_is_no_barrier():
    started = StartedCollective(None, 1, 2, [], "")
    assert (started.was_queried, started.is_barrier) == (False, False)
