"""The CUDA backend as a whole: what its parts share, and how it starts and ends."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.call_buffer import CallBuffer
from syncheck.cuda.events import Events
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import HostMemory
from syncheck.cuda.memory import Memory
from syncheck.cuda.streams import Streams
from syncheck.instrument import threads
from syncheck.instrument.gradients import Gradients
from syncheck.instrument.namer import Namer
from syncheck.instrument.plan import MASKED, Plan
from syncheck.instrument.sites import SiteTable
from syncheck.instrument.threads import ThreadState
from syncheck.sanitizer.monitor import Ids, Monitor
from syncheck.source_lines import PACKAGE

_SYNCHRONIZING = frozenset({"_to_copy", "copy_", "_foreach_copy_"})
"""Operators that synchronize between host and device."""


_MAX_FAILURES = 20
"""Operators that may fail to be logged before the check ends."""


class _Local(threading.local):
    """What the calling thread is doing.

    Attributes:
        state: what is current in it.
        suppressed: depth of calls whose callbacks say what is known already.
    """

    def __init__(self) -> None:
        self.state = ThreadState()
        self.suppressed = 0


class Cuda:
    """Watches the GPUs of this process.

    Attributes:
        is_checking: somebody listens.
        lock: guards the monitor. Finalizers may call in again from the thread that holds it.
        n_special: stream contexts, and threads, that operators must be checked against; 0 in most programs.
        backward_site: where the program called the `backward()` that runs now; 0 if none does.

    Args:
        monitor: receives what the program does.
        sites: captures call sites.
        note: tells the user something about the run.
        after_finding: called after each new finding.
    """

    def __init__(
        self, monitor: Monitor, sites: SiteTable, note: Callable[[str], None], after_finding: Callable[[], None]
    ) -> None:
        from syncheck.cuda.operators import Operators  # noqa: PLC0415  it knows this class

        self.token = object()  # marks the program's objects as known to this check
        self.call_buffer = CallBuffer(monitor, self.report_failure)
        self.sites = sites
        self.note = note
        self.lock = threading.RLock()
        self.is_checking = False
        self.pools_in_use = 0
        self.n_special = 0
        self.backward_site = 0
        self.pid = os.getpid()
        self.n_devices = torch.cuda.device_count()
        self._ids = {"event": 0, "graph": 0, "reading": 0}
        self._local = _Local()
        self.gpu_trace = GpuTrace()
        self.streams = Streams(self)
        self.memory = Memory(self)
        self.host = HostMemory(self)
        self.events = Events(self)
        self.operators = Operators(self)
        self.gradients = Gradients()
        self.on_first_thread: Callable[[], None] | None = None  # called when a thread may lose its starter's device
        self._n_failures = 0
        self.captures: list[int] = []  # the thread of each graph capture in progress
        self.streams_gone: deque[int] = deque()  # stream objects that are gone, told at the next call
        self._namer = Namer(lambda: self.monitor, sites, self.memory.allocation_of, after_finding)
        for device in range(self.n_devices):
            self.streams.of(device, 0)

    # -- what the parts share

    @property
    def monitor(self) -> Monitor:
        """The monitor, which has been told all that happened so far."""
        self.flush_calls()
        return self.call_buffer.monitor

    def flush_calls(self) -> None:
        """Tell the monitor what it has not been told yet."""
        if self.memory.dead:
            self.memory.release_dead()
        if self.call_buffer.calls:
            with self.lock:
                self.call_buffer.flush()

    def next_id(self, kind: str) -> int:
        """Return a new id, from 1."""
        self._ids[kind] += 1
        return self._ids[kind]

    @contextmanager
    def locked_monitor(self) -> Iterator[Monitor]:
        """Give access to the monitor, which knows of all frees so far."""
        with self.lock:
            monitor = self.monitor
            self.events.flush()
            while self.streams_gone:
                monitor.object_destroyed("stream", self.streams_gone.popleft())
            yield monitor

    def site(self) -> int:
        """Return the call site of the program's innermost frame."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the documented way to get a frame
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return self.sites.near(frame, self.backward_site)

    @property
    def thread(self) -> ThreadState:
        """The calling thread's state; its device and streams may be out of date."""
        return self._local.state

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state, its device and streams up to date."""
        state = self._local.state
        if devices.cuda.is_initialized() and not _is_forked():
            state.device = devices.current_device()
            current = {device: self.streams.current(device) for device in range(self.n_devices)}
            state.streams = {d: s for d, s in current.items() if self.streams.handle_of(s)}
        return state

    def new_mode(self) -> Any:
        """Return a dispatch mode to enter."""
        from syncheck.cuda.mode import WatchMode  # noqa: PLC0415

        state = self._local.state
        if state.inherited == (0, {}):
            state.inherited = None  # there is nothing to lose
        if state.inherited is not None:
            self.n_special += 1
            on_first, self.on_first_thread = self.on_first_thread, None
            if on_first is not None:
                on_first()
        return WatchMode(self)

    def mode_left(self) -> None:
        """The calling thread ends."""
        state = self._local.state
        self.n_special -= bool(state.inherited is not None or state.expected_stream)
        state.inherited, state.expected_stream = None, 0

    def check_thread(self, stream: int, device: int, other: int, site: int) -> int:
        """Return the context of an operator, as `Monitor.launch` takes it; look at what its thread has lost."""
        state = self._local.state
        if state.inherited is not None:
            threads.check_inherited(state, stream, site, self.streams, self.monitor)
            self.n_special -= not state.expected_stream
        return threads.mismatch(state, device, device if other < 0 else other, self.streams)

    def pool(self, home: int) -> int:
        """Return the memory pool that the calling thread allocates from; 0 is the allocator's own."""
        return self._local.state.pools.get(self.streams.device_of(home), 0)

    @contextmanager
    def suppressed(self) -> Iterator[None]:
        """Ignore the callbacks of a block: what it does is known already."""
        local = self._local
        local.suppressed += 1
        try:
            yield
        finally:
            local.suppressed -= 1

    @property
    def callbacks_suppressed(self) -> bool:
        """Tell whether callbacks in this thread are to be ignored."""
        return not self.is_checking or self._local.suppressed > 0

    def stream_of(self, stream: Any) -> int:
        """Return the id of a stream object of any of torch's classes; of the current stream for None."""
        if stream is None:
            return self.streams.current(devices.current_device())
        handle = getattr(stream, "cuda_stream", None)
        if handle is None:
            same = devices.cuda.Stream(
                stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
            )
            handle = same.cuda_stream
        return self.streams.of(stream.device_index, handle)

    # -- names

    def name_new(self, kind: str, ident: int, site: int) -> None:
        """Give a new object the name that the program binds it to."""
        self._namer.name_new(kind, ident, site)

    def describe(self, named: Ids, tensors: list[torch.Tensor]) -> None:
        """After a call that completed findings: tell what their tensors look like, and their names."""
        for tensor in tensors:
            allocation = self.memory.allocation_of(tensor) if tensor.is_cuda else 0
            if allocation in named:
                self.monitor.describe_allocation(allocation, self.memory.exact_view(tensor))
        self._namer.after_call(named)

    def after_call(self, named: Ids) -> None:
        """After a call that may have completed a finding: name its tensors."""
        if named:
            self._namer.after_call(named)

    # -- trouble

    def operator_failed(self, plan: Plan | None, error: BaseException, frame: FrameType) -> None:
        """An operator raised in a frame: forget its callbacks; in a capture, say what cannot be captured."""
        if not self.is_checking:
            return
        inner = self.operators.inner.pop(id(frame), ())
        self.operators.n_inner -= len(inner)
        if plan is None or not self.captures:
            return
        with self.locked_monitor() as monitor:
            may_wait = (plan.base in MASKED or plan.numbers) and "captur" in str(error)
            if plan.synchronizes or plan.base in _SYNCHRONIZING or may_wait:
                monitor.sync_in_capture(plan.name, self.site())
            else:  # a library that sets itself up at first use: the warm-up is missing
                monitor.launch(self.streams.current(devices.current_device()), plan.name, (), self.site())

    def report_failure(self, what: str, error: BaseException) -> None:
        """An operator could not be logged: say so, and stop only if it goes on like this."""
        self._n_failures += 1
        if self._n_failures > _MAX_FAILURES:
            self.disable_after_error(error)
        else:
            self.call_buffer.monitor.incomplete(f"{what} could not be logged: {type(error).__name__}: {error}")

    def disable_after_error(self, error: BaseException) -> None:
        """Syncheck itself failed: stop checking, and let the program run on."""
        self.is_checking = False
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f" at {os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}" if where else ""
        self.call_buffer.monitor.incomplete(
            f"syncheck itself failed, and stopped checking: {type(error).__name__}: {error}{place}"
        )

    # -- processes

    def become_child(self) -> None:
        """This process is a forked child: it cannot use CUDA, and is left alone."""
        self.is_checking = False
        self.call_buffer.calls.clear()  # a thread that does not exist here may have held the lock

    # -- start and end

    def watching(self) -> AbstractContextManager[None]:
        """Watch the program for the time of a block."""
        from syncheck.cuda.install import installed  # noqa: PLC0415  it knows this class

        return installed(self)

    def finish(self) -> None:
        """The program has ended: look at what is left, and listen no more."""
        if self.is_checking and os.getpid() == self.pid:
            self.host.verify_all_unmodified()
            with self.locked_monitor():
                self.is_checking = False


def _is_forked() -> bool:
    return bool(devices.cuda._is_in_bad_fork())  # noqa: SLF001
