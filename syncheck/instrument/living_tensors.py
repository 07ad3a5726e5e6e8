"""Finds all tensors of the program while its other threads run."""

import gc
from collections.abc import Iterator
from itertools import chain, compress, repeat, starmap
from operator import is_, or_
from typing import Any

import torch

_GENERATIONS = 3


def living_tensors() -> list[torch.Tensor]:
    """Return all plain tensors and parameters that are alive.

    A list of all objects contains those that other threads are still creating. A tuple under construction must have no
    other reference: `tuple(...)` otherwise fails with a `SystemError`, "bad argument to internal function". The list is
    therefore created, iterated over and released in a single call of C code, during which no other thread runs: the
    call uses no Python function, attribute or comparison of an object, and cannot trigger garbage collection. Hooks of
    `sys.addaudithook` run before the list is created; `id` would call them, too.

    Source:
        Modules/gcmodule.c, `gc_get_objects`; Objects/tupleobject.c, `_PyTuple_Resize`; Python/ceval.c, where threads
        are switched.
    """
    found: list[Any] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for generation in range(_GENERATIONS):
            found += list(_tensors_of(generation))
    finally:
        if was_enabled:
            gc.enable()
    return found


def _tensors_of(generation: int) -> Iterator[Any]:
    """Yield the tensors of a generation, whose objects are listed when the first is requested.

    Each object comes three times: for `compress`, and for the two parts of its condition.
    """
    objects = chain.from_iterable(starmap(gc.get_objects, [(generation,)]))
    each = chain.from_iterable(map(repeat, objects, repeat(3)))
    is_tensor, is_parameter = (map(is_, map(type, each), repeat(kind)) for kind in (torch.Tensor, torch.nn.Parameter))
    return compress(each, map(or_, is_tensor, is_parameter))
