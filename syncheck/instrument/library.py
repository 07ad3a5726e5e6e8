"""Reports calls of library functions and operators that are described for syncheck."""

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import torch

from syncheck.hb.ids import BY_TORCH, StreamId, WaitCall
from syncheck.instrument.after_import import after_import
from syncheck.instrument.gpus import Gpus
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.semantics.library import CURRENT, HOST, NEW, Effect, described


class Library:
    """Wraps described functions once their modules are imported.

    Args:
        gpus: reports what they do.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus

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
            if self._gpus.is_checking():
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
        gpus = self._gpus
        stream = gpus.stream_of(_resolve(effect.stream, bound))
        for reference in effect.waits_for:
            awaited = _resolve(reference, bound)
            if isinstance(awaited, torch.Event | torch.cuda.Event):
                self._wait_event(stream, awaited)
            elif reference == CURRENT or awaited is not None:
                self._wait_stream(stream, gpus.stream_of(awaited))
        uses = [(tensor, False) for tensor in _tensors(effect.reads, bound)]
        uses += [(tensor, True) for tensor in _tensors(effect.writes, bound)]
        if effect.returns == NEW:
            uses += [(tensor, True) for tensor in tensors_in(result)]
        if uses:
            gpus.launch(effect.name, stream, uses)
        for reference in effect.then_waits:
            if reference == HOST:
                self._sync_stream(stream)
            else:
                self._wait_stream(gpus.stream_of(_resolve(reference, bound)), stream)

    def _wait_stream(self, stream: StreamId, other: StreamId) -> None:
        if stream != other:
            with self._gpus.monitor() as monitor:
                monitor.wait_stream(stream, other, self._gpus.site(), BY_TORCH)

    def _wait_event(self, stream: StreamId, awaited: Any) -> None:
        event = self._gpus.event_of(awaited)
        if event:  # otherwise it was recorded before the check began
            with self._gpus.monitor() as monitor:
                monitor.wait(event, stream, self._gpus.site(), WaitCall.TORCH)

    def _sync_stream(self, stream: StreamId) -> None:
        with self._gpus.monitor() as monitor:
            monitor.sync_stream(stream, self._gpus.site(), explicit=False)


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
