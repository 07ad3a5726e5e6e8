"""Delays one launch of a program and records the values that the program computes, for a run of `--confirm`.

The delay is enqueued on the launch's stream before the operator that makes the launch. An operator that works on a
stream of its own, such as a collective, makes that stream wait for the current one. It is therefore called with another
current stream, which has waited for the program's stream and then sleeps.

If the program frees memory that the delayed operator still uses, that memory is overwritten as soon as the allocator
would hand it out, as any later allocation might do.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `collective`: `syncStream` makes the NCCL stream wait for the
    current one; c10/cuda/CUDACachingAllocator.cpp, `free`: a block is free for its own stream at once.
"""

import atexit
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple

import torch

from syncheck.cuda import communicators, devices
from syncheck.cuda.captures import Captures
from syncheck.cuda.delayed_calls import Call, Running, is_plain
from syncheck.cuda.graphs import device_of_graph
from syncheck.cuda.host import HostMemory
from syncheck.cuda.injected_work import InjectedWork
from syncheck.cuda.launch_counts import LaunchCounts
from syncheck.cuda.memory import Memory
from syncheck.cuda.observations import Observations
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.triton import kernel_class, name_of_kernel
from syncheck.hb.ids import StreamId
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.semantics.copies import COPIES
from syncheck.witness.delay import Delay
from syncheck.witness.schedule import LaunchId

_NAN, _ZERO = 0xFF, 0
"""Fill bytes for overwritten memory: floats become NaN, and integers become 0, which is a valid index."""


class _Use(NamedTuple):
    """Memory that a delayed operator uses.

    Attributes:
        address: start address.
        n_bytes: size in bytes.
        device: its device.
        home: the stream that it was allocated on.
        byte: the fill value.
        end: the event at the operator's end.
        storage: weak reference to the storage; kept alive for its callback.
    """

    address: int
    n_bytes: int
    device: int
    home: StreamId
    byte: int
    end: int
    storage: "weakref.ref[torch.UntypedStorage]"


class Delays:
    """Delays the launch that a schedule names, and records the observations.

    Args:
        delay: the launch to delay, and for how long.
        parts: parts of the backend.
        counts: number of launches of each stream.
        work: submits the delays, copies and events.
        observations: collects the record of this run.
    """

    def __init__(
        self,
        delay: Delay,
        parts: "Parts",
        counts: LaunchCounts,
        work: InjectedWork,
        observations: Observations,
    ) -> None:
        self._delay = delay
        self._reporter, self._streams, self._memory = parts.reporter, parts.streams, parts.memory
        self._host, self._captures = parts.host, parts.captures
        self._counts = counts
        self._work = work
        self._observations = observations
        self._delayed_call: tuple[str, int] | None = None  # operator and call site of the first delayed call
        self._uses: list[_Use] = []
        self._freed: deque[_Use] = deque()
        self._n_running = 0
        parts.host.on_read = self._on_host_read
        atexit.register(self.finish)

    # -- around an operator

    def begin(self, call: Call) -> Running | None:
        """Delay the operator that is about to run if the schedule names it; return None if it is irrelevant."""
        if self._observations.record.failed or not self._reporter.is_checking or self._captures:
            return None
        with self._guard():
            return self._begin(call)
        return None

    def end(self, running: Running, result: Any) -> None:
        """Record an operator that has run and has been reported; `running` comes from `begin`."""
        with self._guard():
            self._end(running, result)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Record any exception of a block, and let the program continue."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  must not reach the user's program
            self._observations.failed(error)

    def _begin(self, call: Call) -> Running | None:
        self._check_host_reads(call)
        if call.device < 0:
            return None
        self._reporter.flush_calls()
        self._reuse_freed()
        if not self._n_running:  # otherwise an operator in another thread may be making it
            self._observations.skip(self._counts)
        stream = self._streams.current(call.device)
        handle = self._streams.handle_of(stream)
        upcoming = self._counts.next(stream)
        is_delayed = self._is_delayed(call, upcoming)
        forked = 0
        if is_delayed:
            if call.group is not None:
                # otherwise the host would wait, behind the delay, for the communicator
                communicators.connect(call.name, call.group, call.device)
            forked = self._work.fork(call.device) if self._runs_on_separate_stream(call) else 0
            self._work.sleep(call.device, forked or handle, self._delay.milliseconds / 1000)
            self._observations.record.delayed += 1
        is_recorded = call.is_collective or self._observations.is_watched(upcoming)
        reads = self._work.copies(call.read, call.device, forked or handle) if is_recorded else []
        return Running(call, stream, self._counts.snapshot(), self._observations.now(), reads, is_delayed, forked)

    def _end(self, running: Running, result: Any) -> None:
        call = running.call
        self._reporter.flush_calls()
        results = tensors_in(result)
        written = {id(t): t for t in (*(t for t, is_write in call.tensors if is_write), *results) if is_plain(t)}
        site = self._reporter.site()
        for launch in filter(running.may_have_launched, self._observations.arrived(self._counts)):
            self._observations.launched(launch, running, list(written.values()), site)
        if running.is_delayed:
            self._watch_memory(running, [*(tensor for tensor, _ in call.tensors), *results])
        self._record_host_results(call, result)

    def _is_delayed(self, call: Call, upcoming: LaunchId) -> bool:
        """Return whether an operator is to be delayed; `upcoming` is the next launch of its stream."""
        delay = self._delay
        if delay.launch is None:
            return False
        call_site = (call.name, self._reporter.site())
        if call.is_collective:
            next_launch = self._counts.next(StreamId(delay.launch.stream))
            is_first = upcoming == delay.issuer and next_launch == delay.launch
        else:
            is_first = call.touches and delay.issuer is None and upcoming == delay.launch
        if self._delayed_call is None and is_first:
            self._delayed_call = call_site
            return True
        return delay.is_repeated and self._delayed_call == call_site

    def _runs_on_separate_stream(self, call: Call) -> bool:
        delay = self._delay
        if not call.is_collective or delay.issuer is None or delay.launch is None:
            return False
        if "functional" in call.name:  # it copies its input first, on the current stream
            return False
        return delay.issuer.stream != delay.launch.stream

    @contextmanager
    def around(self, running: Running) -> Iterator[None]:
        """Make the forked stream, if any, current while an operator runs; the check sees the program's stream."""
        device, handle = running.call.device, running.forked
        ids = self._streams.by_handle[device]
        with ExitStack() as stack:
            self._n_running += 1
            stack.callback(self._leave_running)
            if handle:
                with self._guard():
                    stack.enter_context(self._work.on(device, handle))
                    ids[handle] = running.stream
                    stack.callback(ids.pop, handle)
            yield

    def _leave_running(self) -> None:
        self._n_running -= 1

    # -- launches that bypass the dispatch mode

    def install(self, patches: Patches) -> None:
        """Hook graph replays and launches of Triton kernels. Must be called after the check has installed its hooks."""
        patches.set(torch.cuda.CUDAGraph, "replay", self._around(torch.cuda.CUDAGraph.replay, _replay))
        kind = kernel_class()
        if kind is not None:
            patches.set(kind, "run", self._around(kind.run, _kernel))

    def _around(self, original: Any, call_of: Callable[..., Call]) -> Any:
        @wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            reporter = self._reporter
            is_seen = not reporter.callbacks_suppressed and reporter.sees_thread and not kwargs.get("warmup")
            running = self.begin(call_of(*args, **kwargs)) if is_seen else None
            if running is None:
                return original(*args, **kwargs)
            with self.around(running):
                result = original(*args, **kwargs)
            self.end(running, None)
            return result

        return run

    # -- memory that a delayed operator uses

    def _watch_memory(self, running: Running, tensors: list[torch.Tensor]) -> None:
        """Watch the memory that a delayed operator uses, so that it can be overwritten if it is freed too early."""
        device = running.call.device
        end = self._work.events.make(device)
        self._work.events.record(end, device, running.forked or self._streams.handle_of(running.stream))
        for tensor in tensors:
            entry = self._memory.live.get(tensor.untyped_storage().data_ptr()) if is_plain(tensor) else None
            allocated_at = self._counts.allocated.get(entry.ident) if entry is not None else None
            if allocated_at is not None:
                self._watch(tensor, allocated_at[0], end)

    def _watch(self, tensor: torch.Tensor, home: StreamId, end: int) -> None:
        storage = tensor.untyped_storage()
        address, n_bytes, device = storage.data_ptr(), storage.nbytes(), tensor.get_device()
        byte = _NAN if tensor.is_floating_point() or tensor.is_complex() else _ZERO

        def freed(reference: Any) -> None:
            self._freed.append(_Use(address, n_bytes, device, home, byte, end, reference))

        self._uses.append(_Use(address, n_bytes, device, home, byte, end, weakref.ref(storage, freed)))

    def _reuse_freed(self) -> None:
        """Overwrite memory that the program has freed while the delayed operator may still use it."""
        while self._freed:
            try:
                use = self._freed.popleft()
            except IndexError:  # another thread was faster
                return
            if not self._work.events.is_complete(use.end):
                handle = self._streams.handle_of(use.home)
                self._work.overwrite(use.address, use.n_bytes, use.device, handle, use.byte)

    # -- the host

    def _check_host_reads(self, call: Call) -> None:
        """Record the values of pinned memory that an operator is about to read on the host."""
        if self._host.buffers:
            for tensor in call.read:
                if tensor.is_cpu:
                    self._on_host_read(tensor)

    def _on_host_read(self, tensor: torch.Tensor) -> None:
        with self._guard():
            if self._host.of(tensor) is not None:
                self._record_host_read(tensor)

    def _record_host_read(self, tensor: torch.Tensor) -> None:
        site = self._reporter.site()
        with self._work.hidden():
            self._observations.record_host_read(tensor, site)

    def _record_host_results(self, call: Call, result: Any) -> None:
        """Record the values that an operator has returned to the host, if any."""
        if call.name == "aten::_local_scalar_dense":
            with self._work.hidden():
                number = torch.tensor(result, device="cpu")
            self._record_host_read(number)
        elif call.name in COPIES and isinstance(result, torch.Tensor):
            is_complete = result.is_cpu and self._host.of(result) is None
            if is_complete and any(tensor.is_cuda for tensor, _ in call.tensors):
                self._record_host_read(result)

    def finish(self) -> None:
        """Record the final state when the program ends, while its variables still exist."""
        if os.getpid() != self._reporter.pid:  # a forked child, which cannot use the GPU
            return
        self._reporter.flush_calls()
        self._observations.finish(self._memory, self._counts, self._reporter.lock)


def _replay(graph: Any) -> Call:
    return Call("graph replay", True, device_of_graph(graph), (), is_collective=False)


def _kernel(function: Any, *args: Any, **kwargs: Any) -> Call:
    tensors = [
        (value, True) for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.is_cuda
    ]
    return Call(name_of_kernel(function), bool(tensors), devices.current_device(), tensors, is_collective=False)


class Parts(NamedTuple):
    """Parts of the backend."""

    reporter: Reporter
    streams: Streams
    memory: Memory
    host: HostMemory
    captures: Captures
