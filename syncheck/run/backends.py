"""Choose between real and simulated GPUs."""

from functools import partial

from syncheck.config.options import Options
from syncheck.cuda import devices as cuda
from syncheck.cuda.backend import Cuda, measuring
from syncheck.errors import BackendError
from syncheck.instrument.torch_version import check_torch
from syncheck.run.run import MakeBackend
from syncheck.sim.backend import Simulator
from syncheck.witness.schedule import Schedule


def choose(options: Options) -> tuple[str, MakeBackend]:
    """Return the backend that the options ask for: in words, and how to make it.

    Raises:
        BackendError: torch is too old, or real GPUs were asked for and cannot be used.
    """
    check_torch()
    if options.backend == "cuda" or (options.backend == "auto" and cuda.is_available()):
        if options.witness or options.schedule or options.schedules:
            raise BackendError("--witness and --schedule need simulated GPUs", "add --backend sim")
        cuda.check_sanitizer()
        return cuda.describe(), measuring(options.timed_operators) if options.wants_times else Cuda
    if options.steps is not None:
        raise BackendError("--steps needs real GPUs", "simulated ones are there from the first line on: leave it out")
    name = f"{options.devices} simulated GPU{'s' if options.devices != 1 else ''}"
    schedule = Schedule.parse(options.schedule) if options.schedule else None
    return name, partial(Simulator, options.devices, schedule=schedule)


def doctor() -> list[tuple[str, str]]:
    """Return what torch offers here: (what, finding) pairs."""
    rows = [("torch", check_torch())]
    try:
        rows.append(("CUDA", cuda.describe()))
        rows.extend(("CUDA", f"missing: {text}") for text in cuda.missing())
        chosen = "cuda"
    except BackendError as error:
        rows.append(("CUDA", str(error)))
        chosen = "sim"
    rows.append(("backend chosen by auto", chosen))
    return rows
