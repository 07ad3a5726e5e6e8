"""Makes one launch of a program late, and records what the program computes: a run of `--confirm`.

Before the operator that makes the launch, a delay is put on its stream. An operator that works on a stream of its own,
as a collective does, makes that stream wait for the current one: it is called with another stream as the current one,
which has waited for the program's and then sleeps.

Memory that the late operator uses, and that the program frees meanwhile, is overwritten as soon as the allocator hands
it out: whoever allocates next may do the same.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, `collective`: `syncStream` lets the stream of NCCL wait for the
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
from syncheck.cuda.launch_counts import LaunchCounts
from syncheck.cuda.memory import Memory
from syncheck.cuda.observations import Observations
from syncheck.cuda.own_work import OwnWork
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.triton import kernel_class, name_of_kernel
from syncheck.hb.ids import StreamId
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import tensors_in
from syncheck.witness.delay import Delay
from syncheck.witness.schedule import LaunchId

_NAN, _ZERO = 0xFF, 0
"""Bytes that memory is overwritten with: a float of the former only is no number; a zero is a valid index."""


class _Use(NamedTuple):
    """Memory that a late operator uses."""

    address: int
    n_bytes: int
    device: int
    home: StreamId
    byte: int
    end: int
    storage: "weakref.ref[torch.UntypedStorage]"


class Delays:
    """Delays what a schedule names, and has everything recorded.

    Args:
        delay: what is late.
        parts: of the backend.
        counts: the launches of each stream.
        work: what is done on the GPUs for it.
        observations: what is recorded.
    """

    def __init__(
        self,
        delay: Delay,
        parts: "Parts",
        counts: LaunchCounts,
        work: OwnWork,
        observations: Observations,
    ) -> None:
        self._delay = delay
        self._reporter, self._streams, self._memory = parts.reporter, parts.streams, parts.memory
        self._host, self._captures = parts.host, parts.captures
        self._counts = counts
        self._work = work
        self._seen = observations
        self._place: tuple[str, int] | None = None  # operator and call site of the first late call
        self._uses: list[_Use] = []
        self._freed: deque[_Use] = deque()
        self._n_running = 0
        parts.host.on_read = self._on_host_read
        atexit.register(self.finish)

    # -- around an operator

    def begin(self, call: Call) -> Running | None:
        """An operator is about to run: delay it, if it is the one; None where it is of no interest."""
        if self._seen.record.failed or not self._reporter.is_checking or self._captures:
            return None
        with self._guard():
            return self._begin(call)
        return None

    def end(self, running: Running, result: Any) -> None:
        """An operator that has begun has run, and is reported."""
        with self._guard():
            self._end(running, result)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Record that a block fails, and let the program run on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self._seen.failed(error)

    def _begin(self, call: Call) -> Running | None:
        self._check_host_reads(call)
        if call.device < 0:
            return None
        self._reporter.flush_calls()
        self._reuse_freed()
        if not self._n_running:  # else it may be that of an operator of another thread
            self._seen.skip(self._counts)
        stream = self._streams.current(call.device)
        handle = self._streams.handle_of(stream)
        upcoming = self._counts.next(stream)
        is_late = self._is_late(call, upcoming)
        aside = 0
        if is_late:
            if call.group is not None:
                communicators.connect(call.name, call.group, call.device)  # else the host waits for it after the delay
            aside = self._work.fork(call.device) if self._works_aside(call) else 0
            self._work.sleep(call.device, aside or handle, self._delay.milliseconds / 1000)
            self._seen.record.delayed += 1
        wanted = call.is_collective or self._seen.is_watched(upcoming)
        reads = self._work.copies(call.read, call.device, aside or handle) if wanted else []
        return Running(call, stream, self._counts.snapshot(), self._seen.now(), reads, is_late, aside)

    def _end(self, running: Running, result: Any) -> None:
        call = running.call
        self._reporter.flush_calls()
        made = tensors_in(result)
        written = {id(t): t for t in (*(t for t, is_write in call.tensors if is_write), *made) if is_plain(t)}
        site = self._reporter.site()
        for launch in filter(running.may_have_made, self._seen.arrived(self._counts)):
            self._seen.launched(launch, running, list(written.values()), site)
        if running.is_late:
            self._watch_memory(running, [*(tensor for tensor, _ in call.tensors), *made])
        self._record_host_results(call, result)

    def _is_late(self, call: Call, upcoming: LaunchId) -> bool:
        """Return whether an operator is to be delayed, whose stream has a launch of this number next."""
        delay = self._delay
        if delay.launch is None:
            return False
        here = (call.name, self._reporter.site())
        if call.is_collective:
            own = self._counts.next(StreamId(delay.launch.stream))
            is_first = upcoming == delay.issuer and own == delay.launch
        else:
            is_first = call.touches and delay.issuer is None and upcoming == delay.launch
        if self._place is None and is_first:
            self._place = here
            return True
        return delay.is_repeated and self._place == here

    def _works_aside(self, call: Call) -> bool:
        delay = self._delay
        if not call.is_collective or delay.issuer is None or delay.launch is None:
            return False
        if "functional" in call.name:  # it copies its input first, on the current stream
            return False
        return delay.issuer.stream != delay.launch.stream

    @contextmanager
    def around(self, running: Running) -> Iterator[None]:
        """Run an operator with the stream current that it needs; the check takes it for the program's."""
        device, handle = running.call.device, running.aside
        ids = self._streams.by_handle[device]
        with ExitStack() as stack:
            self._n_running += 1
            stack.callback(self._has_run)
            if handle:
                with self._guard():
                    stack.enter_context(self._work.on(device, handle))
                    ids[handle] = running.stream
                    stack.callback(ids.pop, handle)
            yield

    def _has_run(self) -> None:
        self._n_running -= 1

    # -- what no dispatch mode sees

    def install(self, patches: Patches) -> None:
        """Hook replays of graphs, and launches of Triton's kernels; to be called when the check has done so."""
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

    # -- memory that a late operator uses

    def _watch_memory(self, running: Running, tensors: list[torch.Tensor]) -> None:
        """Note which memory a late operator uses, until it is complete."""
        device = running.call.device
        end = self._work.events.make(device)
        self._work.events.record(end, device, running.aside or self._streams.handle_of(running.stream))
        for tensor in tensors:
            entry = self._memory.live.get(tensor.untyped_storage().data_ptr()) if is_plain(tensor) else None
            made = self._counts.allocated.get(entry.ident) if entry is not None else None
            if made is not None:
                self._watch(tensor, made[0], end)

    def _watch(self, tensor: torch.Tensor, home: StreamId, end: int) -> None:
        storage = tensor.untyped_storage()
        address, n_bytes, device = storage.data_ptr(), storage.nbytes(), tensor.get_device()
        byte = _NAN if tensor.is_floating_point() or tensor.is_complex() else _ZERO

        def freed(reference: Any) -> None:
            self._freed.append(_Use(address, n_bytes, device, home, byte, end, reference))

        self._uses.append(_Use(address, n_bytes, device, home, byte, end, weakref.ref(storage, freed)))

    def _reuse_freed(self) -> None:
        """Overwrite what the program has freed while the late operator may use it."""
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
        """The host is about to read pinned memory by an operator."""
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
            self._seen.record_host_read(tensor, site)

    def _record_host_results(self, call: Call, result: Any) -> None:
        """An operator may have given values to the host."""
        if call.name == "aten::_local_scalar_dense":
            with self._work.hidden():
                number = torch.tensor(result, device="cpu")
            self._record_host_read(number)
        elif call.name in {"aten::_to_copy", "aten::copy_"} and isinstance(result, torch.Tensor):
            is_complete = result.is_cpu and self._host.of(result) is None
            if is_complete and any(tensor.is_cuda for tensor, _ in call.tensors):
                self._record_host_read(result)

    def finish(self) -> None:
        """The program has ended: see what came of it, while its variables are there."""
        if os.getpid() != self._reporter.pid:  # a child that was forked, which has no GPU
            return
        self._reporter.flush_calls()
        self._seen.finish(self._memory, self._counts, self._reporter.lock)


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
