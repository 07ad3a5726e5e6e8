"""Models of numpy's functions that write to a given array, which may be a view of pinned memory."""

from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models
from syncheck.lint.interp.unknown import called_name
from syncheck.lint.interp.values import NONE, Call, Sequence, Value

_WRITING = ("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis")
"""Functions that write to their first argument. Source: numpy's reference, "Indexing routines", "numpy.copyto"."""
_WITH_OUT = (
    "add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "clip", "exp", "sqrt", "rint", "dot",
    "matmul", "einsum", "stack", "concatenate", "take", "cumsum", "sum", "mean", "round", "compress", "choose",
)  # fmt: skip
"""Functions that write to `out`. Source: numpy's reference."""


@models(*(f"numpy.{name}" for name in _WRITING))
def _write(evaluator: Evaluator, call: Call) -> Value:
    """Read the other arguments, and write to the first one."""
    written = call.get("", 0)
    others = Sequence([value for value in call.values() if value is not written])
    reads = [(array, False) for array in tensors_in(others)]
    writes = [(array, True) for array in tensors_in(written)]
    evaluator.machine.touch_host(f"numpy.{called_name(call.node)}()", [*reads, *writes], call.node)
    return NONE


@models(*(f"numpy.{name}" for name in _WITH_OUT))
def _with_out(evaluator: Evaluator, call: Call) -> Value | None:
    """Read the arguments, and write to `out`."""
    written = tensors_in(call.kwargs.get("out"))
    if not written:
        return None
    reads = [(array, False) for array in tensors_in(Sequence(call.args))]
    writes = [(array, True) for array in written]
    evaluator.machine.touch_host(f"numpy.{called_name(call.node)}()", [*reads, *writes], call.node)
    return call.kwargs["out"]
