"""All tensors of the program, found while its other threads run."""

import gc
from collections.abc import Iterator
from itertools import chain, compress, repeat, starmap
from typing import Any

import torch

_KINDS = frozenset({id(torch.Tensor), id(torch.nn.Parameter)})
_GENERATIONS = 3
_MOST_NEW = 1000
"""More objects than a list of all objects and the ways through it are made of."""


def living_tensors() -> list[torch.Tensor]:
    """Return all plain tensors and parameters that are alive.

    A list of all objects holds those that other threads are making. A tuple that is being made must have no other
    reference: `tuple(...)` then ends with a `SystemError`, "bad argument to internal function". So the list is made,
    gone through and given back in one call of C code, in which no other thread runs: no function of Python, attribute
    or comparison of an object is asked for, and no collection of garbage begins.

    The list is made twice, as each object is needed by itself and by its type. The second one also has what the first
    is made of, at its end. It ends before the first, which goes on with None, as neither may be left over: what goes
    through a list is among its objects.

    Source:
        Modules/gcmodule.c, `gc_get_objects`; Objects/tupleobject.c, `_PyTuple_Resize`; Python/ceval.c, where threads
        are switched.
    """
    found: list[Any] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for generation in range(_GENERATIONS):
            objects = chain(_objects(generation), repeat(None, _MOST_NEW))
            found += list(compress(objects, map(_KINDS.__contains__, map(id, map(type, _objects(generation))))))
    finally:
        if was_enabled:
            gc.enable()
    return found


def _objects(generation: int) -> Iterator[Any]:
    """Return the objects of a generation; they are listed when the first is asked for."""
    return chain.from_iterable(starmap(gc.get_objects, [(generation,)]))
