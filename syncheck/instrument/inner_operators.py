"""Operators that an operator calls while a dispatch mode runs it.

While a mode handles an operator, torch disables the dispatch keys before the mode's, including for the operators that
this operator calls: autocast, the copies of conjugated and negated views for kernels that do not support them,
autograd's records of views and in-place changes, TorchScript's tracer, and autograd itself. Without a mode, all of
these apply, so that a mode changes results: those of `torch.linalg.pinv`, of operators of `torch.library`, and in
inference mode those of each composite operator.

Source:
    aten/src/ATen/core/PythonFallbackKernel.cpp: `pythonFallback` excludes `after_Python_keyset`;
    `MaybeSetTLSOnEntryGuard` keeps the state of the call. c10/core/DispatchKey.h has the order of the keys.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from syncheck.instrument.torch_internals import NO_CPU_AUTOCAST, C, OpOverload, has_kernel, schema_of
from syncheck.semantics.operators import SILENT

_KEYS = {
    name: C._parse_dispatch_key(name)
    for name in (
        *("AutocastCPU", NO_CPU_AUTOCAST, "AutocastCUDA", "AutocastXPU"),
        *("Conjugate", "Negative", "ZeroTensor"),
        "ADInplaceOrView",
        "PythonTLSSnapshot",  # stores the state of the inner calls in place of that of the operator's own call
    )
}
_AUTOGRAD_KEYS = {
    name: getattr(C.DispatchKey, name) for name in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor")
}
_AUTOGRAD_KERNELS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradXPU", "CompositeImplicitAutograd")
_TRACER = C._parse_dispatch_key("Tracer")
_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler", "c10d", "_c10d_functional"})
"""Namespaces of torch's own operators."""


@cache
def calls_others(func: OpOverload) -> bool:
    """Return whether an operator's kernel may call operators whose results depend on whether a mode is active.

    Source:
        aten/src/ATen/native/LinearAlgebra.cpp and BatchLinearAlgebra.cpp, such as `linalg_pinv`. `_trilinear` calls
        `bmm`, but autocast already handles its caller, `bilinear`. torch/_prims/__init__.py: `prims` call others for
        views.
    """
    base = schema_of(func).name.partition("::")[2]
    is_linalg = base.startswith("linalg_") and base not in SILENT
    return is_linalg or func.namespace == "prims" or not is_of_torch(func)


def is_of_torch(func: OpOverload) -> bool:
    """Return whether an operator is one of torch's own, whose kernels are known and fixed."""
    return func.namespace in _NAMESPACES


def may_be_traced_in_parts(func: OpOverload) -> bool:
    """Return whether `torch.jit.trace` records the operators that an operator calls below autograd, but not itself.

    Source:
        tools/autograd/gen_trace_type.py, `DONT_RECORD_TRACE`; the others there are composite.
    """
    return func._name == "aten::convolution"


def is_traced_in_parts(func: OpOverload) -> bool:
    """Return whether `torch.jit.trace` is recording the operators that an operator calls, but not itself."""
    return may_be_traced_in_parts(func) and C._get_tracing_state() is not None


def run_traced_parts(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the operators that an operator calls below autograd, so that they are recorded and reach the mode.

    Otherwise its result would become a constant of the trace, which must not need a gradient.

    Source:
        torch/csrc/jit/frontend/tracer.cpp, `TracingState::getValue`.
    """
    included, excluded = C._dispatch_tls_local_include_set(), C._dispatch_tls_local_exclude_set()
    with C._ForceDispatchKeyGuard(included, excluded.remove(_TRACER)):
        return func._op_dk(C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def as_without_mode(func: OpOverload, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run an operator in a mode such that the operators that it calls are dispatched as without a mode.

    An operator that autocast or autograd itself handles calls others without it, even if no mode is active.

    Args:
        func: the operator.
        run: the function that runs it.
        args: positional arguments of `run`.
        kwargs: keyword arguments of `run`.

    Source:
        torch/csrc/autograd/init.cpp: `_RestorePythonTLSSnapshot` has the state of the call; operators that are called
        inside of it keep their own. aten/src/ATen/autocast_mode.h: kernels of autocast exclude its key; so do those of
        autograd. torch/csrc/autograd/autograd_not_implemented_fallback.cpp, for all other operators, does not.
    """
    included, excluded = C._dispatch_tls_local_include_set(), C._dispatch_tls_local_exclude_set()
    with C._RestorePythonTLSSnapshot():
        excluded_by_program = C._dispatch_tls_local_exclude_set()
        for name, key in _KEYS.items():
            if not (excluded_by_program.has(key) or _is_treated(func, name)):
                excluded = excluded.remove(key)
        for key in () if _has_derivative(func) else _AUTOGRAD_KEYS.values():
            if not excluded_by_program.has(key):
                excluded = excluded.remove(key)
        with C._ForceDispatchKeyGuard(included, excluded):
            return run(*args, **kwargs)


def _is_treated(func: OpOverload, key: str) -> bool:
    """Return whether an operator has a kernel of its own for a key."""
    return has_kernel(func, key) and not C._dispatch_kernel_for_dispatch_key_is_fallthrough(func._name, key)


def _has_derivative(func: OpOverload) -> bool:
    """Return whether an operator has its own autograd kernel, or is composite."""
    return any(has_kernel(func, key) for key in _AUTOGRAD_KERNELS)
