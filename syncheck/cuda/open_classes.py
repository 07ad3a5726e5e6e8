"""Subclasses that replace torch.Stream and torch.Event, whose own methods are written in C and cannot be patched."""

from functools import cache
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.instrument.patching import Patches


def install_open_classes(patches: Patches) -> tuple[Any, Any]:
    """Replace torch.Stream and torch.Event by patchable subclasses, unless already replaced; return the subclasses.

    The subclasses are the same each time, so that an object created between two checks has the methods that both patch.
    """
    stream, event = (kind if kind in _made else _open_class(kind) for kind in (torch.Stream, torch.Event))
    if torch.Stream is not stream:
        patches.everywhere({torch.Stream: stream, torch.Event: event})
    return stream, event


_made: set[Any] = set()


@cache
def _open_class(kind: Any) -> Any:
    """Return a subclass that can be patched, and that counts every instance of `kind` as its own."""

    class Meta(type(kind)):  # type: ignore[misc]  # the metaclass of a C class
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, kind)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, kind)

    subclass = Meta(kind.__name__, (kind,), {"__module__": "torch", "__doc__": kind.__doc__})
    if kind is torch.Event:
        subclass.elapsed_time = elapsed_time
    _made.add(subclass)
    return subclass


def elapsed_time(event: Any, end_event: Any) -> float:
    """Return the milliseconds between events of the generic class, whose own method rejects subclasses.

    Source:
        torch/csrc/Event.cpp, `THPEvent_elapsed_time`; aten/src/ATen/cuda/CUDAEvent.h for the errors.
    """
    elapsed = milliseconds_between(event.event_id, end_event.event_id)
    if elapsed is not None:
        return elapsed
    if event.query() and end_event.query():  # both are complete, but have no times
        raise ValueError(WITHOUT_TIMES)
    raise RuntimeError(NOT_COMPLETE)


NOT_COMPLETE = "Both events must be completed before calculating elapsed time."
WITHOUT_TIMES = "Both events must be created with argument 'enable_timing=True'."


def milliseconds_between(start: int, end: int) -> float | None:
    """Return the milliseconds between two events, given by handle; None if one is not complete or has no time.

    Raises:
        ValueError: one was not recorded, so its handle is 0.
    """
    if not (start and end):
        raise ValueError("Both events must be recorded before calculating elapsed time.")
    return devices.milliseconds(start, end)
