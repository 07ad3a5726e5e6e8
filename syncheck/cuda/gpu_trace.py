"""torch's GPU trace, enabled only while C++ code runs that may record, wait or synchronize."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.instrument.patching import Patches

# C++ functions outside of operators that wait or record, by class or module.
# Source: torch/csrc/distributed/c10d/init.cpp and ProcessGroupNCCL.cpp (`synchronizeStream`, `endCoalescing`);
# aten/src/ATen/cuda/CUDAFuture.h; torch/csrc/cuda/Module.cpp; torch/csrc/DeviceAccelerator.cpp.
_TRACED_CALLS = {
    "torch._C": ("_cuda_synchronize", "_accelerator_synchronizeDevice"),
    "torch._C.Future": ("wait", "value", "then", "add_done_callback", "set_result"),
    "torch._C._distributed_c10d": ("_broadcast_coalesced", "_verify_params_across_processes"),
    "torch._C._distributed_c10d.Work": ("wait", "synchronize", "result", "get_future", "block_current_stream"),
    "torch._C._distributed_c10d.ProcessGroup": ("_start_coalescing", "_end_coalescing", "_wait_for_pending_works"),
    "torch._C._distributed_c10d.Backend": ("_start_coalescing", "_end_coalescing"),
    "torch._C._distributed_c10d.Reducer": ("prepare_for_forward", "prepare_for_backward", "_rebuild_buckets"),
}


class GpuTrace:
    """The switch of torch's GPU trace.

    A callback that occurs while a Python exception is set replaces the exception, because torch imports a module for
    it. Callbacks are therefore disabled while code of the program runs; frees are detected through the storages.

    Every callback costs microseconds, and most of them are caused by allocations and frees. So listening to a backward
    pass, which may order streams anywhere inside, is deferred while all work is on one stream.

    Attributes:
        inside: one entry per call that is being listened to, over all threads.
        switch: its `value` enables and disables the callbacks. No other thread can run between the check of `inside`
            and the assignment: the interpreter switches threads only at calls and at backward jumps.
        set_muted: called with True to suppress torch's callbacks for memory and for new events and streams, with False
            to restore them.

    Source:
        torch/csrc/PyInterpreter.cpp, `concrete_trace_cuda`; c10/core/impl/GPUTrace.h.
    """

    def __init__(self) -> None:
        self.inside: list[None] = []
        self.switch: Any = devices.NoSwitch()
        self.set_muted: Callable[[bool], None] = lambda _: None
        self._deferred: list[object] = []  # one entry per running call that is not listened to yet
        self._is_enabled = False
        self._enabling = threading.RLock()  # reentrant: a finalizer may create the second stream at any time

    def install(self, patches: Patches) -> None:
        """Activate torch's callbacks, and listen to all functions outside of operators that wait or record."""
        for owner, names in _TRACED_CALLS.items():
            found = _find(owner)
            for name in names:
                original = getattr(found, name, None)
                if original is None:
                    continue
                if isinstance(found, type):
                    patches.set(found, name, _method(self.around(original), name))
                else:
                    patches.everywhere({original: self.around(original)})
        self.switch = devices.start_trace()
        if not isinstance(self.switch, devices.NoSwitch):  # otherwise other listeners may need the callbacks
            self.set_muted(True)
            patches.set(torch._C, "_activate_gpu_trace", self._share)
        patches.on_undo(self._stop)

    def _share(self) -> None:
        """Leave the callbacks enabled from now on: the program listens, too, as torch's own sanitizer does."""
        self.switch.value = True
        self.switch = devices.NoSwitch()
        self.set_muted(False)

    def _stop(self) -> None:
        """Stop listening; threads that are still inside a call get a switch without effect."""
        switch, self.switch = self.switch, devices.NoSwitch()
        switch.value = False
        self.set_muted(False)

    def enable(self) -> None:
        """Listen to deferred calls from now on, including those that are already running."""
        with self._enabling:
            self._is_enabled = True
            count = len(self._deferred)
            self._deferred.clear()
            self.inside += [None] * count
        if self.inside:
            self.switch.value = True

    def defer(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, listening to it only from `enable` on."""
        call = object()
        with self._enabling:
            if self._is_enabled:
                self.inside.append(None)
                self.switch.value = True
            else:
                self._deferred.append(call)
        try:
            return function(*args, **kwargs)
        finally:
            with self._enabling:
                if call in self._deferred:
                    self._deferred.remove(call)
                else:
                    self.inside.pop()
            if not self.inside:
                self.switch.value = False

    def around(self, function: Callable[..., Any]) -> Any:
        """Wrap a function so that callbacks are enabled while it runs."""
        inside = self.inside

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            inside.append(None)
            self.switch.value = True
            try:
                return function(*args, **kwargs)
            finally:
                inside.pop()
                if not inside:
                    self.switch.value = False

        return run


def _method(function: Any, name: str) -> Any:
    """Return a wrapper that pybind11 takes for the original method rather than for an override by a subclass.

    Source:
        pybind11/pybind11.h, `get_type_override`: checks the name of the calling frame's code and its first argument.
    """

    def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        return function(owner, *args, **kwargs)

    method.__code__ = method.__code__.replace(co_name=name)
    return wraps(function)(method)


def _find(path: str) -> Any:
    found: Any = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found
