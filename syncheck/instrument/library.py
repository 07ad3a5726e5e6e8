"""Reports calls of library functions and operators that are described for syncheck."""

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.util import find_spec
from typing import Any, Protocol

import torch

from syncheck.hb.ids import StreamId
from syncheck.instrument.after_import import after_import
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.semantics.library import CURRENT, HOST, NEW, Effect, described

TensorUse = tuple[torch.Tensor, bool]
"""A tensor, and whether it is written."""


class GpuCalls(Protocol):
    """The operations that a backend reports for a library."""

    def is_checking(self) -> bool:
        """Return whether the program is being checked."""
        ...

    def stream_of(self, stream: Any) -> StreamId:
        """Return the stream that an object represents; the current stream for None."""
        ...

    def launch(self, operator: str, stream: StreamId, uses: list[TensorUse]) -> None:
        """Report work on a stream."""
        ...

    def wait_stream(self, stream: StreamId, other: StreamId) -> None:
        """Report that a stream waits for another stream."""
        ...

    def wait_event(self, stream: StreamId, event: Any) -> None:
        """Report that a stream waits for an event."""
        ...

    def sync_stream(self, stream: StreamId) -> None:
        """Report that the host waits for a stream."""
        ...


class Library:
    """Wraps described functions once their modules are imported.

    Args:
        calls: reports to the monitor.
    """

    def __init__(self, calls: GpuCalls) -> None:
        self._calls = calls

    def install(self, patches: Patches) -> None:
        """Wrap the described functions and methods, now or when their modules are imported."""
        for effect in described():
            if not effect.is_operator:
                module = _module_of(effect.name)
                patches.on_undo(after_import(module, lambda e=effect, m=module: self._wrap(e, m, patches)))  # type: ignore[misc]  # binds the loop variables

    def _wrap(self, effect: Effect, module: str, patches: Patches) -> None:
        owner: Any = sys.modules[module]
        *parents, name = effect.name.removeprefix(f"{module}.").split(".")
        for parent in parents:
            owner = getattr(owner, parent, None)
        original = getattr(owner, name, None)
        if callable(original) and not isinstance(original, type):  # a class must stay a class for `isinstance`
            patches.set(owner, name, self._wrapper(effect, original, inspect.getattr_static(owner, name)))

    def _wrapper(self, effect: Effect, original: Callable[..., Any], found: Any) -> Any:
        """Return the replacement of a function, or of a method of the same kind as the original in its class."""
        bind = _binder(original, effect)

        def watched(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = function(*args, **kwargs)
            if self._calls.is_checking():
                self.report(effect, bind(args, kwargs), result)
            return result

        @wraps(original)
        def of_class(cls: type, *args: Any, **kwargs: Any) -> Any:
            return watched(found.__get__(None, cls), args, kwargs)

        @wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return watched(original, args, kwargs)

        if isinstance(found, classmethod):
            return classmethod(of_class)
        return staticmethod(wrapper) if isinstance(found, staticmethod) else wrapper

    def report(self, effect: Effect, bound: dict[str, Any], result: Any) -> None:
        """Report one call.

        Args:
            effect: description of the function.
            bound: its arguments by parameter name.
            result: its return value.
        """
        calls = self._calls
        stream = calls.stream_of(_resolve(effect.stream, bound))
        for reference in effect.waits_for:
            awaited = _resolve(reference, bound)
            if isinstance(awaited, torch.Event | torch.cuda.Event):
                calls.wait_event(stream, awaited)
            elif reference == CURRENT or awaited is not None:
                calls.wait_stream(stream, calls.stream_of(awaited))
        uses = [(tensor, False) for tensor in _tensors(effect.reads, bound)]
        uses += [(tensor, True) for tensor in _tensors(effect.writes, bound)]
        if effect.returns == NEW:
            uses += [(tensor, True) for tensor in tensors_in(result)]
        if uses:
            calls.launch(effect.name, stream, uses)
        for reference in effect.then_waits:
            if reference == HOST:
                calls.sync_stream(stream)
            else:
                calls.wait_stream(calls.stream_of(_resolve(reference, bound)), stream)


def bound_to(effect: Effect, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by the parameter names of its description."""
    return dict(zip(effect.parameters, args, strict=False)) | kwargs


def _binder(
    function: Callable[..., Any], effect: Effect
) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Return a function that binds arguments, by the signature or, for compiled code, by the description."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda args, kwargs: bound_to(effect, args, kwargs)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        found = signature.bind(*args, **kwargs)
        found.apply_defaults()
        return bound_to(effect, args, kwargs) | dict(found.arguments)

    return bind


def _module_of(name: str) -> str:
    """Return the module in a qualified name: the longest prefix that is imported or can be found."""
    parts = name.split(".")[:-1]
    while len(parts) > 1 and not _exists(".".join(parts)):
        parts.pop()
    return ".".join(parts)


def _exists(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return find_spec(module) is not None
    except (ImportError, AttributeError, ValueError):  # the parent is a class, which has no submodules
        return False


def _resolve(reference: str, bound: dict[str, Any]) -> Any:
    """Return the object that a description names; None for the current stream and for an omitted argument."""
    first, *attributes = reference.split(".")
    if reference == CURRENT:
        return None
    if first in bound or not attributes:
        value = bound.get(first)
    else:
        module = _module_of(reference)
        value = sys.modules.get(module)
        attributes = reference.removeprefix(f"{module}.").split(".")
    for attribute in attributes:
        value = getattr(value, attribute, None)
    return value


def _tensors(references: Iterable[str], bound: dict[str, Any]) -> list[torch.Tensor]:
    return [tensor for reference in references for tensor in tensors_in(_resolve(reference, bound))]
