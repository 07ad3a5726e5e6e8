"""Choice between real and simulated GPUs."""

from functools import partial

from syncheck.config.options import Options
from syncheck.cuda import devices as cuda
from syncheck.cuda import native_build
from syncheck.errors import BackendError
from syncheck.instrument.torch_version import check_torch
from syncheck.run.run import MakeBackend
from syncheck.witness.delay import Delay, parse


def simulates(options: Options) -> bool:
    """Return whether the options select simulated GPUs."""
    is_cuda = options.device_type == "cuda"
    return not (options.backend == "cuda" or (options.backend == "auto" and is_cuda and cuda.is_available()))


def is_usable(options: Options) -> bool:
    """Return whether the requested GPUs can be used, without initializing them."""
    return options.backend != "cuda" or (options.device_type == "cuda" and cuda.is_available())


def choose(options: Options) -> tuple[str, MakeBackend]:
    """Return the description and the factory of the backend that the options select.

    Raises:
        BackendError: torch is too old, or real GPUs were requested and cannot be used.
    """
    check_torch()
    is_cuda = options.device_type == "cuda"
    if options.backend == "cuda" and not is_cuda:
        raise BackendError(f"real GPUs of torch.{options.device_type} cannot be checked", "add --backend sim")
    if not simulates(options):
        return cuda.describe(), _real(options)
    if options.confirm:
        raise BackendError("--confirm needs real GPUs", "use --witness for simulated ones")
    kind = "GPU" if is_cuda else options.device_type.upper()
    name = f"{options.devices} simulated {kind}{'s' if options.devices != 1 else ''}"
    schedule = parse(options.schedule) if options.schedule else None
    if isinstance(schedule, Delay):
        raise BackendError(f"the schedule {options.schedule} is a delay on real GPUs", "add --backend cuda")
    from syncheck.sim.backend import Simulator  # noqa: PLC0415  a run needs one backend

    return name, partial(Simulator, options.devices, schedule=schedule, device_type=options.device_type)


def reason(options: Options) -> str:
    """Return why `choose` selects its backend."""
    if options.backend != "auto":
        return f"as set by backend = {options.backend}"
    if options.device_type != "cuda":
        return f"because GPUs of torch.{options.device_type} are always simulated"
    try:
        cuda.describe()
    except BackendError as error:
        return f"because {error}"
    return "which torch can use"


def _real(options: Options) -> MakeBackend:
    """Return the factory of the backend for real GPUs.

    Raises:
        BackendError: an option needs simulated GPUs.
    """
    if options.witness or options.schedules:
        raise BackendError(
            "--witness and --schedules need simulated GPUs", "add --backend sim, or use --confirm for real ones"
        )
    cuda.check_sanitizer()
    if (options.confirm or options.schedule) and cuda.driver() is None:
        raise BackendError("--confirm needs the CUDA driver's library", "use --backend sim --witness")
    if options.confirm and options.steps is not None:
        raise BackendError("--steps and --confirm cannot be combined", "omit one of them")
    if options.schedule and options.wants_times:
        raise BackendError("--schedule measures nothing on real GPUs", "leave out --times, --html and --perfetto")
    from syncheck.cuda import backend, driver_events  # noqa: PLC0415  a run needs one backend

    if options.schedule:
        delay = parse(options.schedule)
        if not isinstance(delay, Delay):
            raise BackendError(f"the schedule {options.schedule} is for simulated GPUs", "add --backend sim")
        return partial(backend.Cuda, delay=delay)
    if not options.wants_times:
        return partial(backend.Cuda, recorder=options.recorder)
    return partial(backend.Cuda, timed_by=driver_events.DriverEvents, most_timed=options.timed_operators)


def doctor() -> list[tuple[str, str]]:
    """Return (item, value) pairs that describe torch's capabilities on this machine."""
    rows = [("torch", check_torch())]
    name = "ROCm" if cuda.rocm() else "CUDA"
    try:
        rows.append((name, cuda.describe()))
        rows.append(("native recorder", native_build.state()))
        rows.extend((name, f"missing: {text}") for text in cuda.missing())
        chosen = "cuda"
    except BackendError as error:
        rows.append((name, str(error)))
        chosen = "sim"
    if cuda.rocm():
        rows.append((name, "torch.cuda is checked as on CUDA; results on ROCm GPUs have not been compared with CUDA's"))
    rows.append(("XPU", "simulated with --backend sim --device-type xpu; real ones cannot be checked"))
    rows.append(("backend chosen by auto", chosen))
    return rows
