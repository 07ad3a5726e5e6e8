"""Choose between real and simulated GPUs."""

from functools import partial

from syncheck.config.options import Options
from syncheck.cuda import devices as cuda
from syncheck.cuda.backend import Cuda
from syncheck.cuda.driver_events import DriverEvents
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
    is_cuda = options.device_type == "cuda"
    if options.backend == "cuda" and not is_cuda:
        raise BackendError(f"real GPUs of torch.{options.device_type} cannot be watched", "add --backend sim")
    if options.backend == "cuda" or (options.backend == "auto" and is_cuda and cuda.is_available()):
        if options.witness or options.schedule or options.schedules:
            raise BackendError("--witness and --schedule need simulated GPUs", "add --backend sim")
        cuda.check_sanitizer()
        timed = partial(Cuda, timed_by=DriverEvents, most_timed=options.timed_operators)
        return cuda.describe(), timed if options.wants_times else Cuda
    kind = "GPU" if is_cuda else options.device_type.upper()
    name = f"{options.devices} simulated {kind}{'s' if options.devices != 1 else ''}"
    schedule = Schedule.parse(options.schedule) if options.schedule else None
    return name, partial(Simulator, options.devices, schedule=schedule, device_type=options.device_type)


def doctor() -> list[tuple[str, str]]:
    """Return what torch offers here: (what, finding) pairs."""
    rows = [("torch", check_torch())]
    name = "ROCm" if cuda.rocm() else "CUDA"
    try:
        rows.append((name, cuda.describe()))
        rows.extend((name, f"missing: {text}") for text in cuda.missing())
        chosen = "cuda"
    except BackendError as error:
        rows.append((name, str(error)))
        chosen = "sim"
    if cuda.rocm():
        rows.append((name, "torch.cuda is checked as on CUDA; no run on such GPUs has been compared with CUDA's"))
    rows.append(("XPU", "simulated with --backend sim --device-type xpu; real ones cannot be watched"))
    rows.append(("backend chosen by auto", chosen))
    return rows
