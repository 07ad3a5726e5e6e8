"""Triton kernels that are launched directly and bypass the dispatch mode."""

from functools import wraps
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from syncheck.cuda import devices
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.instrument.patching import Patches


def kernel_class() -> Any:
    """Return the class of Triton's kernels; None without Triton, which CUDA builds of torch include."""
    try:
        from triton.runtime.jit import JITFunction  # type: ignore[import-not-found]  # noqa: PLC0415  see above
    except ImportError:
        return None
    return JITFunction


def name_of_kernel(function: Any) -> str:
    """Return a kernel's name for reports."""
    return f"triton::{getattr(function, '__name__', 'kernel')}"


class Triton:
    """Hooks Triton's launcher if Triton is installed."""

    def __init__(
        self, reporter: Reporter, streams: Streams, memory: Memory, launches: Launches, patches: Patches
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._memory = memory
        self._launches = launches
        self._patches = patches
        self._written: dict[tuple[Any, ...], frozenset[str] | None] = {}

    def install(self) -> None:
        """Hook `JITFunction.run`, which every launch goes through, including autotuned ones."""
        kind = kernel_class()
        if kind is None:
            return
        original = kind.run
        reporter = self._reporter

        @wraps(original)
        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(function, *args, **kwargs)
            if not reporter.callbacks_suppressed and reporter.sees_thread and not kwargs.get("warmup"):
                with reporter.guard():
                    self._log(function, args, kwargs)
            return result

        self._patches.set(kind, "run", run)

    def _log(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments = dict(zip(function.arg_names, args, strict=False))
        arguments |= {name: value for name, value in kwargs.items() if name in function.arg_names}
        tensors = {n: value for n, value in arguments.items() if isinstance(value, torch.Tensor) and value.is_cuda}
        if not tensors:
            return
        written = self._written_arguments(function, arguments, tensors)
        device = devices.current_device()
        stream = self._streams.current(device)
        with self._reporter.locked_monitor():
            accesses = [
                access
                for name, tensor in tensors.items()
                if (access := self._memory.access(tensor, is_write=written is None or name in written))
            ]
        self._launches.launch(name_of_kernel(function), stream, device, accesses, list(tensors.values()))

    def _written_arguments(
        self, function: Any, arguments: dict[str, Any], tensors: dict[str, torch.Tensor]
    ) -> frozenset[str] | None:
        """Return the arguments that a kernel writes, from Triton's intermediate code; None if they are unknown.

        Source:
            torch/_higher_order_ops/triton_kernel_wrap.py, `identify_mutated_tensors`, which torch.compile relies on.
        """
        key = (function, *(value.dtype if name in tensors else _key(value) for name, value in arguments.items()))
        if key not in self._written:
            self._written[key] = self._analyze(function, arguments)
        return self._written[key]

    def _analyze(self, function: Any, arguments: dict[str, Any]) -> frozenset[str] | None:
        from torch._higher_order_ops import triton_kernel_wrap  # noqa: PLC0415

        module: Any = triton_kernel_wrap
        try:
            with self._reporter.suppressed(), _disable_current_modes():
                if hasattr(module, "identify_accessed_tensors"):  # torch 2.12 and later
                    found = module.identify_accessed_tensors(function, dict(arguments), {})
                    return frozenset(write.name for write in found.read_writes.writes)
                return frozenset(module.identify_mutated_tensors(function, dict(arguments), {}))
        except Exception:  # noqa: BLE001  another signature, or code that cannot be analyzed
            text = (
                "the tensors that a Triton kernel writes could not be determined: all of its tensors count as written"
            )
            self._reporter.note(text)
            return None


def _key(value: Any) -> Any:
    """Return the part of an argument that distinguishes kernels: its type, or a value that may be a constant."""
    return value if isinstance(value, int | bool | str | float | type(None)) else type(value)
