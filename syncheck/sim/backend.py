"""The simulator: assembles its components and replaces CUDA for the duration of a run."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, ClassVar

import torch
import torch.autograd.graph
import torch.cuda
import torch.nn.parallel.comm
import torch.utils.data.dataloader

from syncheck.instrument.clocks import Clocks
from syncheck.instrument.control_flow import install_control_flow
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.higher_order import install_higher_order_operators
from syncheck.instrument.hosts import Hosts
from syncheck.instrument.kept_results import KeptResults
from syncheck.instrument.library import Library
from syncheck.instrument.message_batches import Messages, hook_batches
from syncheck.instrument.modes import skip_rules
from syncheck.instrument.patching import Patches
from syncheck.instrument.subclasses import install_subclasses
from syncheck.instrument.threads import install_threads
from syncheck.instrument.torch_internals import engine
from syncheck.instrument.values import seed_generators
from syncheck.sanitizer.monitor import Monitor
from syncheck.semantics.threads import ThreadState
from syncheck.sim import device_kind, errors
from syncheck.sim.autocast import Autocast
from syncheck.sim.autograd import Backward, Engine
from syncheck.sim.comm import install_comm
from syncheck.sim.compute import Compute
from syncheck.sim.copies import Copies
from syncheck.sim.creation import Creation
from syncheck.sim.cuda_api import install_cuda
from syncheck.sim.deferral import Deferral
from syncheck.sim.device_type import install_device_type
from syncheck.sim.dispatch import Dispatcher
from syncheck.sim.distributed import Distributed
from syncheck.sim.flex_attention import install_flex_attention
from syncheck.sim.gpus import SimulatedGpus
from syncheck.sim.graph_recorder import GraphRecorder
from syncheck.sim.graphs import CUDAGraph
from syncheck.sim.host_reads import HostReads
from syncheck.sim.launches import Launches
from syncheck.sim.legacy_types import install_legacy_types
from syncheck.sim.mode import SimulatorMode
from syncheck.sim.nccl import install_distributed
from syncheck.sim.observations import Observations
from syncheck.sim.parallel import install_parallel
from syncheck.sim.placement import Placement
from syncheck.sim.processes import install_processes
from syncheck.sim.random import Random
from syncheck.sim.recorded import install_recording
from syncheck.sim.runtime import Runtime
from syncheck.sim.script_modules import install_script_modules
from syncheck.sim.shared_storages import SharedStorages
from syncheck.sim.storages import StorageShim
from syncheck.sim.tensors import TensorShim, install_module_moves
from syncheck.sim.transformed import without_simulation
from syncheck.sim.transformed_random import TransformedRandom
from syncheck.sim.unsupported import hide_cuda, install_unsupported
from syncheck.sim.virtual_gpus import CallSites
from syncheck.witness.record import request
from syncheck.witness.schedule import Schedule


class Simulator:
    """Virtual GPUs in place of CUDA.

    Args:
        n_devices: number of virtual GPUs.
        monitor: receives the operations of the program.
        sites: captures call sites.
        note: shows the user a message about the run.
        findings: receives the findings that the session completes.
        after_finding: called after new findings.
        schedule: decides when operators run; None to run them as they are submitted.
        device_type: the kind of GPU to simulate: that of `torch.cuda` or `torch.xpu`.
    """

    must_see_all: ClassVar[bool] = True
    enters_threads = True

    def __init__(
        self,
        n_devices: int,
        monitor: Monitor,
        sites: CallSites,
        note: Callable[[str], None],
        findings: NewFindings,
        after_finding: Callable[[], None],
        schedule: Schedule | None = None,
        device_type: str = "cuda",
    ) -> None:
        device_kind.choose(device_type)
        self._device_type = device_type
        if device_type != device_kind.CUDA.name:
            monitor.device_type(device_type)
        if schedule is not None:
            seed_generators()
        self.runtime = runtime = Runtime(n_devices, monitor, sites, note, findings, after_finding)
        self.backward = backward = Backward(runtime)
        self.launches = launches = Launches(runtime, backward)
        self.random = random = Random(n_devices)
        self.placement = placement = Placement(runtime, backward)
        compute = Compute(random, runtime.memory)
        self.recorder = recorder = GraphRecorder(runtime, compute, launches)
        self.deferral = deferral = self._make_deferral(compute, sites, schedule)
        self.copies = copies = Copies(runtime, backward, launches, placement, recorder, deferral)
        self.distributed = distributed = Distributed(runtime, backward, launches, deferral)
        self._gpus = SimulatedGpus(runtime, launches)
        self.library = library = Library(self._gpus)
        self.dispatcher = Dispatcher(
            runtime, backward, launches, placement, compute, recorder, copies, distributed, library
        )
        self.dispatcher.deferral = deferral
        self._hosts = Hosts(runtime.gpus.locked_monitor)
        self._hosts.on_first_thread = self._first_thread_starts

    def _make_deferral(self, compute: Compute, sites: CallSites, schedule: Schedule | None) -> Deferral | None:
        wanted = request()
        if schedule is None:
            return None
        deferral = Deferral(self.runtime, compute, schedule, Observations(wanted, sites))
        self.runtime.deferral = deferral
        return deferral

    # -- interface for `instrument.threads`

    @property
    def is_checking(self) -> bool:
        """Return whether the program is being checked."""
        return self.runtime.is_checking

    @is_checking.setter
    def is_checking(self, value: bool) -> None:
        self.runtime.is_checking = value

    def thread_state(self) -> ThreadState:
        """Return the calling thread's state."""
        return self.runtime.gpus.thread

    def new_mode(self) -> SimulatorMode:
        """Return a dispatch mode for the calling thread to enter."""
        return SimulatorMode(self.dispatcher)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """See `syncheck.run.run.Backend`."""
        return self.runtime.gpus.lock

    # -- start and end

    def prepared(self) -> AbstractContextManager[None]:
        """Return a context in which the program is set up, so that objects created there can be checked later."""
        return self.watching()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Show virtual GPUs to the program for the duration of a block, and restore everything afterwards.

        A later block finds the tensors, streams and events of this one.
        """
        runtime = self.runtime
        runtime.is_checking = True
        device_kind.choose(self._device_type)
        patches = Patches()
        with runtime.activated():
            try:
                with patches.in_one_pass():
                    self.install(patches)
                mode = self.new_mode()
                mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                try:
                    yield
                finally:
                    runtime.is_checking = False
                    if os.getpid() == runtime.pid:
                        mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch leaves it untyped
            finally:
                if os.getpid() == runtime.pid:
                    patches.undo()
                    device_kind.choose(device_kind.CUDA.name)

    def install(self, patches: Patches) -> None:
        """Patch everything that depends on CUDA. The dispatch mode is separate: each thread enters its own."""
        runtime, copies, launches = self.runtime, self.copies, self.launches
        hide_cuda(patches)
        install_device_type(patches)
        TensorShim(runtime, copies, patches).install()
        install_subclasses(patches)
        install_higher_order_operators(patches)
        install_flex_attention(patches)
        install_recording(patches)
        install_module_moves(patches)
        HostReads(runtime, launches, patches).install()
        Creation(runtime, copies, patches).install()
        install_legacy_types(patches)
        install_script_modules(patches)
        StorageShim(runtime, copies, patches).install()
        SharedStorages(runtime).install(patches)
        install_parallel(patches)
        install_comm(runtime, patches)
        install_cuda(runtime, launches, self.random, patches)
        patches.set(CUDAGraph, "recorder", self.recorder)
        patches.set(CUDAGraph, "kept_results", KeptResults(runtime.allocation_of))
        self._install_autograd(patches)
        skip_rules(SimulatorMode, patches)
        Autocast(patches).install()
        TransformedRandom(runtime.memory, self.placement, patches).install()
        original_compile = torch.compile
        install_unsupported(runtime.note, patches)
        install_control_flow(original_compile, without_simulation, patches)
        install_threads(self, self._hosts, patches)
        install_processes(runtime, patches)
        self.library.install(patches)
        install_distributed(self.distributed, patches)
        if torch.distributed.is_available():
            hook_batches(patches, Messages(self._gpus))
        gpus = runtime.gpus
        patches.set(errors, "on_not_simulated", lambda what: gpus.notify("incomplete", f"{what} is not simulated"))
        Clocks(gpus.notify, patches, gpus.next_reading, gpus.site).install()

    def _install_autograd(self, patches: Patches) -> None:
        backward, distributed = self.backward, self.distributed
        original = engine()
        device = self.runtime.memory.device

        @wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            values = zip(args[0], args[1], strict=True)  # a value may be a `GradientEdge`, which has no device
            roots = ((v, device(v if isinstance(v, torch.Tensor) else g)) for v, g in values if g is not None)
            with backward.running(args[4] if len(args) > 4 else (), roots):
                result = original(*args, **kwargs)
            if not backward.is_running:
                distributed.join_ddp_pending()
            return result

        patches.everywhere({original: run})
        variable: Any = torch.autograd.Variable
        patches.set(variable, "_execution_engine", Engine(variable._execution_engine, backward))  # no public name
        function = torch.autograd.Function
        apply: Any = vars(function)["apply"]  # a class method, written in C++ since torch 2.14

        def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
            nodes = backward.note_inputs(args)
            result = apply.__get__(None, cls)(*args, **kwargs)
            nodes.clear()
            backward.note_function(result, device)
            return result

        patches.set(function, "apply", classmethod(wraps(function.apply)(applied)))

    def _first_thread_starts(self) -> None:
        memory = self.runtime.memory
        memory.alone.end()
        memory.flush()

    def flush_calls(self) -> None:
        """Report everything that has happened so far."""
        self.runtime.memory.flush()
        if self.runtime.unchecked_use.is_set:
            self.runtime.gpus.monitor.incomplete("a forked process used GPUs and was not checked")

    def start_program(self) -> None:
        """Start over with another program, which is not checked either if syncheck has failed before."""
        self.runtime.gpus.guarded.repeat_failure()

    def finish(self) -> None:
        """Check the remaining work after the program has ended, and stop checking."""
        runtime = self.runtime
        if self.deferral is not None and runtime.is_checking:
            self.deferral.finish()
        if runtime.is_checking:
            runtime.verify_all_unmodified()
            runtime.memory.flush()
            runtime.is_checking = False
