"""The dispatch mode that every operator of a thread passes through."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.cuda.dispatch_plan import DispatchPlan, HigherOrder
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import HostMemory
from syncheck.cuda.operator_errors import OperatorErrors
from syncheck.cuda.operators import Operators
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.instrument.inner_operators import as_without_mode, is_traced_in_parts, run_traced_parts
from syncheck.instrument.torch_internals import (
    MODE_TENSOR_TYPES,
    has_nested_tensor,
    overrides_dispatch,
    run_parts,
    with_tensors,
)
from syncheck.source.frames import frame_at

_NOT_HANDLED = object()


class WatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Runs operators and logs them; entered in every thread of the program."""

    supports_higher_order_operators = True  # the operators inside them are dispatched to this mode

    def __init__(
        self,
        reporter: Reporter,
        threads: ThreadContexts,
        host: HostMemory,
        gpu_trace: GpuTrace,
        operators: Operators,
        errors: OperatorErrors,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._reporter = reporter
        self._threads = threads
        self._host = host
        self._gpu_trace = gpu_trace
        self._operators = operators
        self._plans = operators.plans
        self._errors = errors
        self._takes: set[Any] = {torch.Tensor, torch.nn.Parameter}

    def _pass_on(
        self, dispatch: DispatchPlan | HigherOrder, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Delegate an operator to whatever decomposes it; its parts are dispatched here again.

        Return _NOT_HANDLED if nothing decomposes it.
        """
        if any(issubclass(kind, MODE_TENSOR_TYPES) for kind in types):
            return dispatch.func(*args, **kwargs)  # dispatched to the mode below
        if any(overrides_dispatch(kind) for kind in types):
            return NotImplemented
        self._takes.update(types)
        run: Callable[..., Any] | None = None
        if dispatch.is_composite and not has_nested_tensor(args):
            run = partial(as_without_mode, dispatch.func, run_parts)
        elif dispatch.may_have_parts and is_traced_in_parts(dispatch.func):
            run = run_traced_parts
        if run is not None:
            super().__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            try:
                return run(dispatch.func, args, kwargs)
            finally:
                super().__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return _NOT_HANDLED

    def log_after_run(
        self, operator: str, inputs: list[tuple[torch.Tensor, bool]], results: list[torch.Tensor], *, fills: bool
    ) -> None:
        """Log an operator that the native recorder ran but can no longer record; see `Operators.log_after_run`."""
        if self._reporter.is_checking:
            self._operators.log_after_run(operator, inputs, results, fills=fills)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping `__torch_dispatch__`: the wrapper costs a microsecond per call.

        Source:
            torch/utils/_python_dispatch.py, `TorchDispatchMode.__init_subclass__`.
        """
        return False

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._threads.left()

    def __torch_dispatch__(  # noqa: C901, PLR0912  the hot path: another call costs more than a branch
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        dispatch = self._plans.get(id(func)) or self._operators.plan(func)
        if dispatch.may_have_parts or (types and not self._takes.issuperset(types)):
            handled = self._pass_on(dispatch, types, args, kwargs or {})
            if handled is not _NOT_HANDLED:
                return handled
        is_number = dispatch.is_item and not self._host.buffers and getattr(args[0], "is_cpu", False)
        is_idle = not (dispatch.is_seen or dispatch.listens or self._gpu_trace.inside)  # such as `detach`
        if is_number or is_idle:  # an optimizer step reads hundreds of numbers
            try:
                return dispatch.call(*args, **kwargs) if kwargs else dispatch.call(*args)
            except RuntimeError as error:
                values = with_tensors(func, args, error)
                if values is None:
                    raise
            return self.__torch_dispatch__(func, types, values, kwargs)
        special = dispatch.special
        if special is not None and special[0](args, kwargs or {}) and self._reporter.is_checking:
            return special[1](dispatch, args, kwargs or {})
        if dispatch.off is not None and dispatch.plan.is_off(args, kwargs or {}):
            dispatch = dispatch.off
        listens = dispatch.listens
        inside, switch = self._gpu_trace.inside, self._gpu_trace.switch
        if listens:
            inside.append(None)
            switch.value = True
        try:
            result = dispatch.call(*args, **kwargs) if kwargs else dispatch.call(*args)
        except BaseException as error:
            if listens:
                inside.pop()
            switch.value = False  # in a backward pass, too: the exception propagates through C++ code
            values = with_tensors(func, args, error)
            if values is not None:
                return self.__torch_dispatch__(func, types, values, kwargs)
            self._errors.note(dispatch.plan, error, frame_at())
            raise
        if listens:
            inside.pop()
            if not inside:
                switch.value = False
        if self._reporter.is_checking and dispatch.is_seen and type(result) is not FakeTensor:
            try:
                self._operators.log(dispatch, args, kwargs, result)  # type: ignore[arg-type]  # not higher-order
            except Exception as error:  # noqa: BLE001  the boundary to the user's program
                self._reporter.report_failure(dispatch.plan.name, error)  # type: ignore[union-attr]  # not higher-order
        return result


DISPATCH = WatchMode.__torch_dispatch__.__code__
"""Code object of the frame that an operator runs in; callbacks raised from this frame belong to the operator."""
