"""The dispatch mode: every operator of a thread passes here."""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.torch_internals import C, HigherOrderOperator, OpOverload, is_composite, run_parts, takes_apart
from syncheck.sim import fake_tensors
from syncheck.sim.dispatch import Dispatcher
from syncheck.sim.errors import NotSimulatedError

_KEYS = (C.DispatchKey.CompositeExplicitAutograd, C.DispatchKey.BackendSelect, C.DispatchKey.CPU)
"""Where a higher-order operator keeps the implementation that is made of operators, best first."""


class SimulatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs operators and has them reported; entered in every thread of the program."""

    supports_higher_order_operators = True
    _plain_types: set[type] = {torch.Tensor, torch.nn.Parameter}  # noqa: RUF012  shared: what was learned holds for all

    _composite: dict[Any, bool] = {}  # noqa: RUF012  shared, as above

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._dispatcher = dispatcher

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
        if func.__class__ is not OpOverload and isinstance(func, HigherOrderOperator):
            return self._take_apart(func, args, kwargs or {})
        if fake_tensors.are_made():
            return func(*args, **(kwargs or {}))  # also on a GPU they have no memory
        if not self._plain_types.issuperset(types):
            if any(issubclass(kind, FakeTensor) for kind in types):
                return func(*args, **(kwargs or {}))  # it has no memory
            if any(takes_apart(kind) for kind in types):
                return NotImplemented
            self._plain_types.update(types)
        if self._is_composite(func):
            with self:
                return run_parts(func, args, kwargs or {})
        return self._dispatcher.run(func, args, kwargs or {})

    def _is_composite(self, func: Any) -> bool:
        """Return whether an operator is made of others, and comes here as a whole: that is so in inference mode.

        Source:
            torch/_ops.py, `OpOverload.decompose`; with autograd such operators are taken apart before they get here.
        """
        known = self._composite.get(func)
        if known is None:
            known = self._composite[func] = is_composite(func) and not self._dispatcher.is_special(func)
        return known

    def _take_apart(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is made of others, so that its parts come here.

        Raises:
            NotSimulatedError: it has no implementation in terms of operators.

        Source:
            torch/_higher_order_ops: each has an implementation in terms of operators; those of `cond` and `while_loop`
            want no mode around them. torch/_prims/rng_prims.py: those that draw random numbers choose by the device.
        """
        if func.name() in {"cond", "while_loop"}:
            decide, *others = (self._entering(value) if callable(value) else value for value in args)
            return func(self._decided(decide), *others, **kwargs)
        parts = next((func.py_kernels[key] for key in _KEYS if key in func.py_kernels), None)
        if parts is None:
            raise NotSimulatedError(f"the higher-order operator {func.name()}")
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
