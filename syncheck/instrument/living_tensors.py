"""Finds all tensors of the program while its other threads run."""

import gc
from collections.abc import Iterator
from itertools import chain, compress, repeat, starmap
from typing import Any

import torch

_KINDS = frozenset({id(torch.Tensor), id(torch.nn.Parameter)})
_GENERATIONS = 3
_MAX_NEW = 1000
"""Upper bound on the objects that listing all objects and iterating over them creates."""


def living_tensors() -> list[torch.Tensor]:
    """Return all plain tensors and parameters that are alive.

    A list of all objects contains those that other threads are still creating. A tuple under construction must have no
    other reference: `tuple(...)` otherwise fails with a `SystemError`, "bad argument to internal function". The list is
    therefore created, iterated over and released in a single call of C code, during which no other thread runs: the
    call uses no Python function, attribute or comparison of an object, and cannot trigger garbage collection.

    The list is created twice, because each object is needed together with its type. The second list also has the
    objects that the first one consists of, at its end. It must end before the first, which is extended with None, so
    that no item is left over: the iterators themselves are among the listed objects.

    Source:
        Modules/gcmodule.c, `gc_get_objects`; Objects/tupleobject.c, `_PyTuple_Resize`; Python/ceval.c, where threads
        are switched.
    """
    found: list[Any] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for generation in range(_GENERATIONS):
            objects = chain(_objects(generation), repeat(None, _MAX_NEW))
            found += list(compress(objects, map(_KINDS.__contains__, map(id, map(type, _objects(generation))))))
    finally:
        if was_enabled:
            gc.enable()
    return found


def _objects(generation: int) -> Iterator[Any]:
    """Yield the objects of a generation; they are listed when the first is requested."""
    return chain.from_iterable(starmap(gc.get_objects, [(generation,)]))
