"""Operators that an operator calls while a dispatch mode runs it.

While a mode handles an operator, torch switches off what comes before a mode, also for the operators that this one
calls: autocast, the copies of conjugated and negated views for kernels that take none, what autograd notes of views and
of changes in place, TorchScript's tracer, and autograd itself. Without a mode they have all of that, so that a mode
changes results: those of `torch.linalg.pinv`, of operators of `torch.library`, and in inference mode of each that is
made of others.

Source:
    aten/src/ATen/core/PythonFallbackKernel.cpp: `pythonFallback` excludes `after_Python_keyset`;
    `MaybeSetTLSOnEntryGuard` keeps the state of the call. c10/core/DispatchKey.h has the order of the keys.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from syncheck.instrument.torch_internals import C, OpOverload, has_kernel, schema_of
from syncheck.semantics.operators import SILENT

_KEYS = {
    name: getattr(C.DispatchKey, name)
    for name in (
        *("AutocastCPU", "AutocastCUDA", "AutocastXPU", "Conjugate", "Negative", "ZeroTensor"),
        "ADInplaceOrView",
        "PythonTLSSnapshot",  # keeps the state of calls inside of the operator, in place of that of its own call
    )
}
_AUTOGRAD_KEYS = {
    name: getattr(C.DispatchKey, name) for name in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor")
}
_AUTOGRAD_KERNELS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradXPU", "CompositeImplicitAutograd")
_TRACER = C._parse_dispatch_key("Tracer")
_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler", "c10d", "_c10d_functional"})
"""Those of torch itself."""


@cache
def calls_others(func: OpOverload) -> bool:
    """Return whether the kernel of an operator may call operators, for which a mode would make a difference.

    Source:
        aten/src/ATen/native/LinearAlgebra.cpp and BatchLinearAlgebra.cpp, such as `linalg_pinv`. `_trilinear` calls
        `bmm`, but autocast treats `bilinear`, which calls it. torch/_prims/__init__.py: `prims` call others for views.
    """
    base = schema_of(func).name.partition("::")[2]
    is_linalg = base.startswith("linalg_") and base not in SILENT
    return is_linalg or func.namespace == "prims" or not is_of_torch(func)


def is_of_torch(func: OpOverload) -> bool:
    """Return whether an operator is one of torch itself, whose kernels are known and stay."""
    return func.namespace in _NAMESPACES


def may_be_traced_in_parts(func: OpOverload) -> bool:
    """Return whether `torch.jit.trace` records the operators that one calls below autograd, and not itself.

    Source:
        tools/autograd/gen_trace_type.py, `DONT_RECORD_TRACE`; the others there are made of operators.
    """
    return func._name == "aten::convolution"


def is_traced_in_parts(func: OpOverload) -> bool:
    """Return whether `torch.jit.trace` is recording the operators that one calls, and not itself."""
    return may_be_traced_in_parts(func) and C._get_tracing_state() is not None


def run_traced_parts(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the operators that one calls below autograd, so that they are recorded, and come to the mode.

    Else its result is a constant of the trace, which must not need a gradient.

    Source:
        torch/csrc/jit/frontend/tracer.cpp, `TracingState::getValue`.
    """
    included, excluded = C._dispatch_tls_local_include_set(), C._dispatch_tls_local_exclude_set()
    with C._ForceDispatchKeyGuard(included, excluded.remove(_TRACER)):
        return func._op_dk(C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def as_without_mode(func: OpOverload, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run an operator in a mode; the operators that it calls get what they get without a mode.

    An operator that autocast or autograd itself treats calls others without it, also where no mode is active.

    Args:
        func: the operator.
        run: what runs it.
        args: what `run` is called with.
        kwargs: the same, by name.

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
    """Return whether an operator has a kernel of its own for autograd, or is made of operators that have."""
    return any(has_kernel(func, key) for key in _AUTOGRAD_KERNELS)
