"""Operators that torch's tracer (`make_fx`) records: on the devices that the program names, and run on simulated GPUs.

Source:
    torch/fx/experimental/proxy_tensor.py, `proxy_call`: the tracer's mode records an operator and then runs it. It is
    below all modes of programs (torch/utils/_python_dispatch.py, `_push_mode`), so that these see the operator first.
"""

import threading
from functools import wraps
from types import FrameType
from typing import Any

from torch.fx import interpreter
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import OpOverload, early_tracer, tracer
from syncheck.sim import fake_gradients
from syncheck.sim.errors import NotSimulatedError
from syncheck.source.frames import frame_at, locals_of

_GRAPHS = ("<eval_with_key>", interpreter.__file__)
"""Beginnings of the file names of code that runs a graph: generated code (torch/fx/graph_module.py), or torch's."""

_CALL = OpOverload.__call__.__code__


class _Passed(threading.local):
    """The mode that runs the operator that has just been passed to the tracer, or None."""

    mode: TorchDispatchMode | None = None


_passed = _Passed()


def is_recording() -> bool:
    """Return whether a tracer records the operators of this thread."""
    return tracer() is not None


def check_move() -> None:
    """Check that a move from or to a GPU can be recorded.

    Raises:
        NotSimulatedError: it is recorded before autograd, as a call of `Tensor.to`, which would do nothing in a graph.

    Source:
        aten/src/ATen/native/TensorConversions.cpp, `to`: C++ code compares the devices, here those of the host.
    """
    if early_tracer() is not None:
        raise NotSimulatedError(
            "a move between devices in a graph that is recorded before autograd (by torch.export)",
            "export the model while it is on the CPU, or record with `make_fx`",
        )


def record(mode: TorchDispatchMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pass an operator to the tracer, which records it and runs it in a mode."""
    before, _passed.mode = _passed.mode, mode
    try:
        return fake_gradients.run(func, args, kwargs)
    finally:
        _passed.mode = before


def install_recording(patches: Patches) -> None:
    """Let the tracer run an operator that it was passed in the mode that belongs to it."""
    original: Any = ProxyTorchDispatchMode.__torch_dispatch__

    @wraps(original)
    def dispatch(tracing: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        mode, _passed.mode = _passed.mode, None
        if mode is None:
            return original(tracing, func, types, args, kwargs)
        with mode:
            return original(tracing, func, types, args, kwargs)

    patches.set(ProxyTorchDispatchMode, "__torch_dispatch__", dispatch)


def is_called_by_graph(func: Any) -> bool:
    """Return whether a graph calls an operator: its arguments are those that were recorded, also the device."""
    frame: FrameType | None = frame_at(1)
    while frame is not None:
        if frame.f_code is _CALL:
            if locals_of(frame).get("self") is not func:
                return False  # a kernel of another operator calls this one
            if frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_GRAPHS):
                return True  # perhaps through a mode or a tensor subclass, which has called it again
        frame = frame.f_back
    return False
