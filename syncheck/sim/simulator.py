"""The simulator as a whole: what is active, and the small services that its parts share."""

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from syncheck.instrument.namer import Namer
from syncheck.instrument.threads import ThreadState
from syncheck.sanitizer.monitor import Ids, Monitor
from syncheck.sanitizer.race_context import UNSEEN_WRITE
from syncheck.sim.errors import cuda_error
from syncheck.sim.memory import Memory
from syncheck.sim.null_monitor import NullMonitor
from syncheck.sim.virtual_gpus import HOST_DEVICE, CallSites, VirtualGpus

if TYPE_CHECKING:
    from syncheck.sim.streams import SimulatedStream

_active: "Simulator | None" = None


def active() -> "Simulator":
    """Return the simulator of this process."""
    if _active is None:
        raise RuntimeError("no simulated GPU is active in this process")
    return _active


def set_active(simulator: "Simulator | None") -> None:
    """Make a simulator the one of this process."""
    global _active  # noqa: PLW0603  one set of GPUs a process, as in reality
    _active = simulator


class Simulator:
    """Virtual GPUs under torch's own interface.

    Args:
        n_devices: how many.
        monitor: receives what the program does.
        sites: captures call sites.
        note: tells the user something about the run.
        after_finding: called after each new finding.
    """

    def __init__(
        self,
        n_devices: int,
        monitor: Monitor,
        sites: CallSites,
        note: Callable[[str], None],
        after_finding: Callable[[], None],
    ) -> None:
        from syncheck.sim.autograd import Backward  # noqa: PLC0415  they know this class
        from syncheck.sim.copies import Copies  # noqa: PLC0415
        from syncheck.sim.dispatch import Dispatcher, SimulatorMode  # noqa: PLC0415
        from syncheck.sim.distributed import Distributed  # noqa: PLC0415
        from syncheck.sim.graph_recorder import GraphRecorder  # noqa: PLC0415
        from syncheck.sim.random import Random  # noqa: PLC0415

        self.gpus = VirtualGpus(n_devices, monitor, sites)
        self.torch_devices = [torch.device("cuda", index) for index in range(n_devices)]
        self.memory = Memory(self.gpus)
        self.random = Random(n_devices)
        self.copies = Copies(self)
        self.recorder = GraphRecorder(self)
        self.dispatcher = Dispatcher(self)
        self.backward = Backward(self)
        self.distributed = Distributed(self)
        self.gpus.on_change = self.backward.streams_changed
        self.mode_class = SimulatorMode
        self.pid = os.getpid()
        self.note = note
        self.is_checking = True
        self.is_forked = False
        self._namer = Namer(lambda: self.gpus.monitor, sites, self._allocation_of, after_finding)
        self._asked: set[tuple[str, int]] = set()
        self._finalizers: list[Any] = []

    # -- threads

    def enter(self) -> None:
        """Bring things up to date before a call of the program acts: frees, and the stream of an autograd node."""
        self.memory.flush()
        self.backward.sync_current_node()

    def watching(self) -> AbstractContextManager[None]:
        """Let the program see virtual GPUs for the time of a block."""
        from syncheck.sim.install import installed  # noqa: PLC0415  it knows this class

        return installed(self)

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state."""
        return self.gpus.thread

    def new_mode(self) -> Any:
        """Return a dispatch mode to enter."""
        return self.mode_class(self)

    @contextmanager
    def unmonitored(self) -> Iterator[None]:
        """Run torch operators without being seen."""
        with _disable_current_modes(), torch.no_grad():
            yield

    # -- processes

    def become_child(self) -> None:
        """This process is a forked child: stop watching, answer questions about devices and streams as before."""
        self.is_checking = False
        self.is_forked = True
        self.gpus.monitor = NullMonitor()
        self.memory.forget_frees()

    def check_process(self) -> None:
        """Raise what CUDA's initialization raises in a forked child.

        Source:
            torch/cuda/__init__.py, `_lazy_init`.
        """
        if self.is_forked:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )

    # -- devices

    def index_of(self, device: Any) -> int:
        """Return the index of a device given as torch takes it; the current one where the index is left out.

        Raises:
            RuntimeError: torch's error for an ordinal that does not exist.
        """
        self.check_process()
        index = _explicit_index(device)
        if index is None or index < 0:
            state = self.gpus.thread
            state.implicit_device = True
            return state.device
        if index >= len(self.gpus.devices):
            raise cuda_error("invalid device ordinal")
        return index

    def resolve(self, stream: "SimulatedStream | None") -> tuple[int, int]:
        """Return (device, stream id) of a stream, the current one for None."""
        if stream is None:
            device = self.gpus.thread.device
            return device, self.gpus.current_stream(device)
        return stream.device_index, stream.ident

    # -- names

    def name_new(self, kind: str, ident: int, site: int) -> None:
        """Give a new object the name that the program binds it to."""
        self._namer.name_new(kind, ident, site)

    def after_call(self, named: Ids) -> None:
        """After a call that may have completed a finding: name its tensors while the frames are alive."""
        if named:
            self._namer.after_call(named)

    def _allocation_of(self, tensor: torch.Tensor) -> int:
        tag = self.memory.of(tensor)
        return 0 if tag is None else tag.ident

    def on_finalize(self, thing: Any, kind: str, ident: int) -> None:
        """Tell the monitor when a stream or event object is gone."""
        weakref.finalize(thing, self._gone, kind, ident).atexit = False

    def _gone(self, kind: str, ident: int) -> None:
        if _active is not self:
            return
        monitor = self.gpus.monitor
        if kind == "stream":
            monitor.object_destroyed("stream", ident)
        else:
            monitor.object_destroyed("timing event", ident)
            monitor.drop_event(ident)

    # -- waiting on the host

    def answer_query(self, kind: str, ident: int, event: Any = None) -> bool:
        """Answer a query: pending work is not complete at the first question, and complete at the next one.

        So both branches of a program that asks are run, and a loop that polls ends.
        """
        self.enter()
        gpus = self.gpus
        self.refuse_any_capture(f"{kind.capitalize()}.query()")
        if gpus.monitor.is_pending(kind, ident):
            key = (kind, ident)
            if key not in self._asked and not (event is not None and event.queried):
                if event is not None:
                    event.queried = True
                else:
                    self._asked.add(key)
                return False
            self._asked.discard(key)
        site = gpus.site()
        if kind == "event":
            gpus.monitor.sync_event(ident, site)
        else:
            gpus.monitor.sync_stream(ident, site, explicit=False)
        return True

    def synchronize(self, device: Any = None) -> None:
        """`torch.cuda.synchronize`."""
        self.enter()
        index = self.index_of(device)
        self.verify_all_unmodified()
        self.refuse_any_capture("torch.cuda.synchronize()")
        self.gpus.monitor.sync_device(index, self.gpus.site())

    def refuse_in_capture(self, call: str) -> None:
        """Report a host synchronization during a capture and raise what CUDA raises."""
        self.gpus.monitor.sync_in_capture(call, self.gpus.site())
        self.recorder.invalidate()
        raise cuda_error("operation not permitted when stream is capturing")

    def refuse_any_capture(self, call: str) -> None:
        """Refuse a call that no capture in progress allows, whatever its stream.

        Source:
            CUDA Runtime API, cudaStreamCaptureModeGlobal: potentially unsafe calls are prohibited.
        """
        if self.recorder.is_recording:
            self.refuse_in_capture(call)

    # -- pinned buffers whose address was handed out

    def verify_unmodified(self, tensor: torch.Tensor) -> None:
        """Report a change of an exported pinned buffer since an asynchronous copy from it was submitted."""
        tag = self.memory.of(tensor)
        if tag is None or tag.in_flight is None:
            return
        changed = self.memory.checksum(tensor.untyped_storage()) != tag.in_flight
        tag.in_flight = None
        if changed:
            site = self.gpus.site()
            access = [(tag.ident, self.memory.view(tensor), True)]
            self.after_call(self.gpus.monitor.host_access(UNSEEN_WRITE, access, site))

    def verify_all_unmodified(self) -> None:
        """Look at all exported pinned buffers with copies in flight, before the host waits."""
        for tag, storage in self.memory.exported():
            if tag.device == HOST_DEVICE and tag.in_flight is not None:
                with self.unmonitored():
                    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self.verify_unmodified(whole)

    def flush_calls(self) -> None:
        """The monitor knows all that happened so far: it is told at once."""

    def finish(self) -> None:
        """The program has ended: look at what is left, and listen no more."""
        if self.is_checking:
            self.verify_all_unmodified()
            self.is_checking = False
            self.memory.flush()


def _explicit_index(device: Any) -> int | None:
    """Return the index in a device description; None where it names no index."""
    if device is None:
        return None
    if isinstance(device, int):
        return int(device)
    if isinstance(device, torch.device | str):
        found = torch.device(device)
        if found.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {found}")
        return found.index
    return getattr(device, "index", None) if hasattr(device, "index") else getattr(device, "idx", None)
