"""The dispatch mode that intercepts every operator of a thread."""

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
    MODE_TENSOR_TYPES,
    C,
    DisableTorchFunctionSubclass,
    HigherOrderOperator,
    OpOverload,
    fake_mode,
    has_nested_tensor,
    is_composite,
    is_traced,
    overrides_dispatch,
    python_kernel,
    run_parts,
)
from syncheck.sim import fake_gradients, fake_tensors
from syncheck.sim.attention import is_sharded, run_sharded
from syncheck.sim.device_kind import is_on_gpu, simulated
from syncheck.sim.dispatch import Dispatcher
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.fast_path import NOT_QUALIFIED
from syncheck.sim.recorded import is_recording, record

_KEYS = (C.DispatchKey.CompositeExplicitAutograd, C.DispatchKey.BackendSelect, C.DispatchKey.CPU)
"""Dispatch keys under which a higher-order operator's implementation in terms of operators is found, best first."""


class SimulatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs and reports operators. Every thread of the program enters one."""

    supports_higher_order_operators = True
    _plain_types = frozenset({torch.Tensor, torch.nn.Parameter})

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._dispatcher = dispatcher
        self._parts = dispatcher.parts
        self._run_fast, self._shortcuts = dispatcher.fast_path.run, dispatcher.fast_path.shortcuts

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave `__torch_dispatch__` unwrapped: torch.compile does not run, and the wrapper would slow down each call.

        Source:
            torch/utils/_python_dispatch.py, `TorchDispatchMode.__init_subclass__`.
        """
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator. A tensor with inner tensors unpacks itself; the operators on these get here again."""
        shortcut = self._shortcuts.get(id(func))
        if (
            shortcut is not None
            and (not types or self._plain_types.issuperset(types))
            and not fake_tensors.Modes.were_entered
        ):
            result = self._run_fast(shortcut, args, kwargs)
            if result is not NOT_QUALIFIED:
                return result
        return self._dispatch(func, types, args, kwargs or {})

    def _dispatch(  # noqa: PLR0911  one case after the other
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator that the fast path does not handle: see `__torch_dispatch__`."""
        if func.__class__ is not OpOverload and isinstance(func, HigherOrderOperator):
            return self._run_in_parts(func, args, kwargs)
        if is_recording():
            return self._record(func, args, kwargs)
        if fake_tensors.is_active() or any(issubclass(kind, MODE_TENSOR_TYPES) for kind in types):
            return fake_gradients.run(func, args, kwargs)  # they have no memory, even on a GPU
        if not self._plain_types.issuperset(types) and any(overrides_dispatch(kind) for kind in types):
            return self._run_sharded(func, args, kwargs) if is_sharded(func, args) else NotImplemented
        if is_traced_in_parts(func):
            with self:
                return run_traced_parts(func, args, kwargs)
        parts = self._parts[func] if func in self._parts else self._find_parts(func)
        if parts is None or has_nested_tensor(args):
            run = self._dispatcher.run
            with DisableTorchFunctionSubclass():
                return as_without_mode(func, run, func, args, kwargs) if calls_others(func) else run(func, args, kwargs)
        with self:
            return as_without_mode(func, parts, args, kwargs)

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return record(_RecordedMode(self._dispatcher), func, args, self._dispatcher.recorded(func, args, kwargs))

    def _run_sharded(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self:
            return run_sharded(func, args, kwargs)

    def _find_parts(self, func: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
        """Return the function that runs the component operators of an operator, or None if it is run as a whole.

        With autograd, torch decomposes its own operators before they get here (torch/_ops.py, `OpOverload.decompose`).
        """
        parts: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
        if self._dispatcher.runs_undecomposed(func):
            pass
        elif is_composite(func):
            parts = partial(run_parts, func)
        else:
            parts = python_kernel(func, simulated().name.upper(), is_on_gpu)
        if is_of_torch(func):  # a program may register other kernels for its own operators later
            self._parts[func] = parts
        if parts is None and isinstance(func, OpOverload) and not (calls_others(func) or may_be_traced_in_parts(func)):
            self._dispatcher.add_to_fast_path(func)
        return parts

    def _run_in_parts(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator in parts, so that its component operators are intercepted.

        Raises:
            NotSimulatedError: it has no implementation in terms of operators.

        Source:
            torch/_higher_order_ops: each has an implementation in terms of operators. `cond`, `while_loop` and
            operators that only call a function must not be run inside a mode. torch/_prims/rng_prims.py: operators that
            draw random numbers choose an implementation by device.
        """
        if is_traced():
            return func(*args, **kwargs)  # to the mode below
        if func.name() in {"cond", "while_loop"}:
            decide, *others = (self._in_mode(value) if callable(value) else value for value in args)
            return func(self._read_condition(decide), *others, **kwargs)
        parts = next((func.py_kernels[key] for key in _KEYS if key in func.py_kernels), None)
        if parts is None or has_nested_tensor(args):
            raise NotSimulatedError(f"the higher-order operator {func.name()}")
        if isinstance(func, BaseHOP) or func.name() in {"invoke_subgraph", "strict_mode"}:
            return parts(*(self._in_mode(value) if callable(value) else value for value in args), **kwargs)
        with self:
            return parts(*args, **kwargs)

    def _in_mode(self, function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    def _read_condition(self, value: Any) -> Any:
        """Make the host read a condition. The condition of a loop is read each time it is evaluated."""
        if callable(value):
            return lambda *args: self._read_condition(value(*args))
        with self:
            return bool(value)


class _RecordedMode(SimulatorMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs the operators that a tracer has recorded. Those without memory are left to the tracer's FakeTensorMode."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if fake_mode() is not None:
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)
