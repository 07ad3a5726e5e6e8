"""The dispatch mode: every operator of a thread passes here."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._higher_order_ops.base_hop import BaseHOP
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.inner_operators import (
    as_without_mode,
    calls_others,
    is_of_torch,
    is_traced_in_parts,
    may_be_traced_in_parts,
    run_traced_parts,
)
from syncheck.instrument.torch_internals import (
    OF_MODES,
    C,
    DisableTorchFunctionSubclass,
    HigherOrderOperator,
    OpOverload,
    is_composite,
    is_of_nested,
    is_traced,
    python_kernel,
    run_parts,
    takes_apart,
)
from syncheck.sim import fake_tensors
from syncheck.sim.device_kind import is_on_gpu, simulated
from syncheck.sim.dispatch import Dispatcher
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.ordinary import NOT_ORDINARY

_KEYS = (C.DispatchKey.CompositeExplicitAutograd, C.DispatchKey.BackendSelect, C.DispatchKey.CPU)
"""Where a higher-order operator keeps the implementation that is made of operators, best first."""


class SimulatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs operators and has them reported; entered in every thread of the program."""

    supports_higher_order_operators = True
    _plain_types = frozenset({torch.Tensor, torch.nn.Parameter})

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._dispatcher = dispatcher
        self._parts = dispatcher.parts
        self._run_ordinary, self._shortcuts = dispatcher.ordinary.run, dispatcher.ordinary.shortcuts

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave `__torch_dispatch__` as it is: torch.compile does not run, and the wrapper costs time at each call.

        Source:
            torch/utils/_python_dispatch.py, `TorchDispatchMode.__init_subclass__`.
        """
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator; a tensor that is made of others takes it apart itself, and its parts come here again."""
        shortcut = self._shortcuts.get(id(func))
        if shortcut is not None and self._plain_types.issuperset(types) and not fake_tensors.Modes.were_entered:
            with DisableTorchFunctionSubclass():  # a class of tensors sees nothing of what is asked of them here
                result = self._run_ordinary(shortcut, args, kwargs or {})
            if result is not NOT_ORDINARY:
                return result
        return self._dispatch(func, types, args, kwargs or {})

    def _dispatch(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """See `__torch_dispatch__`."""
        if func.__class__ is not OpOverload and isinstance(func, HigherOrderOperator):
            return self._take_apart(func, args, kwargs)
        if fake_tensors.are_made() or any(issubclass(kind, OF_MODES) for kind in types):
            return func(*args, **kwargs)  # also on a GPU fake tensors have no memory; others go to the mode below
        if not self._plain_types.issuperset(types) and any(takes_apart(kind) for kind in types):
            return NotImplemented
        if is_traced_in_parts(func):
            with self:
                return run_traced_parts(func, args, kwargs)
        parts = self._parts[func] if func in self._parts else self._find_parts(func)
        if parts is None or is_of_nested(args):
            run = self._dispatcher.run
            with DisableTorchFunctionSubclass():
                return as_without_mode(func, run, func, args, kwargs) if calls_others(func) else run(func, args, kwargs)
        with self:
            return as_without_mode(func, parts, args, kwargs)

    def _find_parts(self, func: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
        """Return what runs the operators that an operator is made of; None if it is none of these.

        With autograd those of torch are taken apart before they get here (torch/_ops.py, `OpOverload.decompose`).
        """
        parts: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
        if self._dispatcher.is_whole(func):
            pass
        elif is_composite(func):
            parts = partial(run_parts, func)
        else:
            parts = python_kernel(func, simulated().name.upper(), is_on_gpu)
        if is_of_torch(func):  # a program may give its own operators other kernels later
            self._parts[func] = parts
        if parts is None and isinstance(func, OpOverload) and not (calls_others(func) or may_be_traced_in_parts(func)):
            self._dispatcher.add_ordinary(func)
        return parts

    def _take_apart(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is made of others, so that its parts come here.

        Raises:
            NotSimulatedError: it has no implementation in terms of operators.

        Source:
            torch/_higher_order_ops: each has an implementation in terms of operators; those of `cond`, `while_loop` and
            all that only call a function want no mode around them. torch/_prims/rng_prims.py: those that draw random
            numbers choose by the device.
        """
        if is_traced():
            return func(*args, **kwargs)  # to the mode below
        if func.name() in {"cond", "while_loop"}:
            decide, *others = (self._entering(value) if callable(value) else value for value in args)
            return func(self._decided(decide), *others, **kwargs)
        parts = next((func.py_kernels[key] for key in _KEYS if key in func.py_kernels), None)
        if parts is None or is_of_nested(args):
            raise NotSimulatedError(f"the higher-order operator {func.name()}")
        if isinstance(func, BaseHOP) or func.name() in {"invoke_subgraph", "strict_mode"}:
            return parts(*(self._entering(value) if callable(value) else value for value in args), **kwargs)
        with self:
            return parts(*args, **kwargs)

    def _entering(self, function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    def _decided(self, value: Any) -> Any:
        """Let the host read a condition; that of a loop, each time that it is asked."""
        if callable(value):
            return lambda *args: self._decided(value(*args))
        with self:
            return bool(value)
