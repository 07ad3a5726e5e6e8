"""Futures of collectives: waiting for one orders the current stream, and callbacks run on separate streams.

Source:
    aten/src/ATen/core/ivalue_inl.h, `Future::wait`, `synchronizeWithCurrentStreams`, `invokeCallback`: a callback gets
    a stream of the pool that waits for the value, and its result counts as produced on that stream. The value's memory
    is kept for the waiting stream (`recordDataPtrOnStream`). `value()` does not wait.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol

import torch

from syncheck.hb.ids import AllocationId, StreamId, WaitCall
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import C
from syncheck.sim.started import StartedCollective
from syncheck.sim.virtual_gpus import VirtualGpus


class _Collectives(Protocol):
    """The interface of `syncheck.sim.distributed.Distributed` that futures need."""

    def join(self, started: StartedCollective) -> None: ...

    def add_ddp_pending(self, started: StartedCollective, idents: frozenset[AllocationId]) -> None: ...

    def new_end(self, started: StartedCollective) -> StartedCollective: ...

    def idents(self, tensors: Iterable[torch.Tensor]) -> frozenset[AllocationId]: ...

    def record(self, tensors: Iterable[torch.Tensor], stream: StreamId) -> None: ...


class Futures:
    """Tracks the collectives or callbacks that futures stand for."""

    def __init__(self, collectives: _Collectives, gpus: VirtualGpus) -> None:
        self._collectives = collectives
        self._gpus = gpus
        self._known: dict[int, tuple[Any, StartedCollective, frozenset[AllocationId]]] = {}
        self._latest: tuple[StartedCollective, frozenset[AllocationId]] | None = None

    def register(self, future: Any, started: StartedCollective, idents: frozenset[AllocationId]) -> None:
        """Register the future of a collective. C++ code that gets it in a backward pass waits for it, unobserved."""
        key = id(future)
        gone = weakref.ref(future, lambda _: self._known.pop(key, None))
        self._known[key] = (gone, started, idents)
        self._latest = started, idents
        self._collectives.add_ddp_pending(started, idents)

    def run_comm_hook(self, run_hook: Callable[[], Any]) -> Any:
        """Run a communication hook called by C++ code, and return its future, which C++ passes on as another object."""
        self._latest = None
        future = run_hook()
        if self._latest is not None:
            self.register(future, *self._latest)
        return future

    def install(self, patches: Patches) -> None:
        """Patch the methods that wait and those that register callbacks."""
        kind = C.Future
        original_wait, original_then = kind.wait, kind.then

        @wraps(original_wait)
        def wait(future: Any) -> Any:
            result = original_wait(future)
            known = self._known.get(id(future))
            if known is not None:
                self._collectives.join(known[1])
                current = self._gpus.current_stream(self._gpus.device_of(known[1].stream))
                self._collectives.record(tensors_in(result), current)
            return result

        @wraps(original_then)
        def then(future: Any, callback: Callable[[Any], Any]) -> Any:
            known = self._known.get(id(future))
            if known is None:
                return original_then(future, callback)
            _, started, idents = known
            end = self._collectives.new_end(started)

            def on_side(value: Any) -> Any:
                self._collectives.record(started.tensors, end.stream)
                with self._on_callback_stream(started, end):
                    returned = callback(value)
                end.tensors += tensors_in(returned)
                self._collectives.add_ddp_pending(end, self._collectives.idents(end.tensors))
                return returned

            result = original_then(future, on_side)
            self.register(result, end, idents)
            return result

        patches.set(kind, "wait", wait)
        patches.set(kind, "then", then)

    @contextmanager
    def _on_callback_stream(self, started: StartedCollective, end: StartedCollective) -> Iterator[None]:
        """Run a block on the stream of `end`, after making it wait for `started`, and record `end` afterwards."""
        gpus, state = self._gpus, self._gpus.thread
        before, was_explicit = gpus.current_stream(gpus.device_of(end.stream)), state.set_explicitly
        gpus.monitor.wait(started.event, end.stream, gpus.site(), WaitCall.TORCH)
        gpus.set_stream(end.stream)
        try:
            yield
        finally:
            gpus.set_stream(before)
            state.set_explicitly = was_explicit
            gpus.monitor.record(end.event, end.stream, gpus.site())
