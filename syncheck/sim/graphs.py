"""`torch.cuda.CUDAGraph` and `torch.accelerator.Graph` for virtual devices."""

import warnings
from typing import Any, ClassVar

from syncheck.instrument.kept_results import KeptResults
from syncheck.sim.capture_modes import CaptureMode
from syncheck.sim.errors import NotSimulatedError, cuda_error, not_simulated
from syncheck.sim.graph_recorder import GraphRecorder, Tape
from syncheck.sim.random import DeviceGenerator
from syncheck.sim.runtime import active

_EMPTY = (
    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream."
)


class CUDAGraph:
    """`torch.cuda.CUDAGraph` for virtual devices.

    Attributes:
        recorder: records the capture in progress; set for the duration of a check, like the next.
        kept_results: watches the results of all graphs.
    """

    recorder: ClassVar[GraphRecorder]
    kept_results: ClassVar[KeptResults]

    def __init__(self, keep_graph: bool = False) -> None:
        del keep_graph
        self._runtime = active()
        self._tape: Tape | None = None
        self._device = 0
        self._pool = (0, self._runtime.gpus.next_pool())
        self._generators: list[DeviceGenerator] = []

    def register_generator_state(self, generator: Any) -> None:
        """Let the graph draw random numbers from a generator of the program."""
        self._generators.append(generator)

    def capture_begin(
        self,
        pool: Any = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Start capturing the current stream.

        Source:
            aten/src/ATen/cuda/CUDAGraph.cpp, `capture_begin`: a default stream cannot be captured.
        """
        del check_input_liveness
        runtime = self._runtime
        runtime.enter()
        gpus = runtime.gpus
        self._device = gpus.thread.device
        mode = CaptureMode(capture_error_mode, self._device)
        stream = gpus.current_stream(self._device)
        if gpus.handle_of(stream) == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        if pool is not None:
            self._pool = pool
        tape = Tape(gpus.next_graph(), stream)
        tape.generators = self._generators
        self.recorder.begin(tape)
        runtime.capture_mode = mode
        gpus.monitor.capture_begin(tape.ident, stream, gpus.site(), self._pool[1])

    def capture_end(self) -> None:
        """End the capture.

        Source:
            CUDA Runtime API: cudaErrorStreamCaptureUnjoined (904), cudaErrorStreamCaptureInvalidated (901);
            aten/src/ATen/cuda/CUDAGraph.cpp, `capture_end`: the warning.
        """
        runtime = self._runtime
        runtime.enter()
        if not runtime.is_capturing:
            raise cuda_error("operation not permitted")
        tape = self.recorder.end()
        unjoined = runtime.gpus.monitor.capture_end(tape.ident)
        if not tape.is_valid:
            raise cuda_error("operation failed due to a previous error during capture")
        if unjoined:
            raise cuda_error("capturing stream has unjoined work")
        if not tape.n_launches:
            warnings.warn(_EMPTY, UserWarning, stacklevel=2)
        if runtime.deferral is not None:
            runtime.deferral.captured(tape.owned.values())
        self._tape = tape

    def replay(self) -> None:
        """Run the graph once, on the current stream of the device on which it was captured.

        Source:
            aten/src/ATen/cuda/CUDAGraph.cpp, `replay`: a device guard.
        """
        runtime = self._runtime
        runtime.enter()
        if self._tape is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        gpus = runtime.gpus
        stream = gpus.current_stream(self._device)
        with runtime.unmonitored():
            if runtime.deferral is not None:
                runtime.deferral.replay(
                    self._tape.ident, self._tape.steps, [one.tensor() for one in self._tape.external]
                )
            else:
                for step in self._tape.steps:
                    step()
        site = gpus.site()
        gpus.monitor.replay(self._tape.ident, stream, site)
        self.kept_results.replayed(self._tape.ident, gpus.monitor, site)
        runtime.name_findings()

    def reset(self) -> None:
        """Discard the captured graph."""
        self._tape = None

    def pool(self) -> tuple[int, int]:
        """Return the token of the graph's memory pool."""
        return self._pool

    def instantiate(self) -> None:
        """Do nothing: a simulated graph is not instantiated."""

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` raises NotSimulatedError anyway."""

    def debug_dump(self, debug_path: str) -> None:
        """Raise NotSimulatedError."""
        raise NotSimulatedError("CUDAGraph.debug_dump()", f"there is no CUDA graph to write to {debug_path}")

    raw_cuda_graph = not_simulated("CUDAGraph.raw_cuda_graph()")
    raw_cuda_graph_exec = not_simulated("CUDAGraph.raw_cuda_graph_exec()")
    get_graph_data = not_simulated("CUDAGraph.get_graph_data()")


class AcceleratorGraph(CUDAGraph):
    """Replacement for `torch.accelerator.Graph`.

    Source:
        torch/accelerator/graphs.py.
    """

    def __init__(
        self,
        keep_graph: bool = False,
        *,
        pool: Any = None,
        capture_error_mode: str = "default",
    ) -> None:
        super().__init__(keep_graph)
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Start capturing the current stream, using the pool given to the constructor."""
        del args, kwargs
        super().capture_begin(self.graph_pool)

    def __enter__(self) -> "AcceleratorGraph":
        active().synchronize()
        self.capture_begin()
        return self

    def __exit__(self, *error: object) -> None:
        self.capture_end()
