"""Check a program on virtual GPUs."""

import os
import sys
from collections.abc import Callable

import torch

from syncheck.capture.sites import SiteTable
from syncheck.config import Options
from syncheck.errors import BackendError
from syncheck.findings import Report
from syncheck.launcher import PreparedProgram, execute
from syncheck.sanitizer.session import Session
from syncheck.sim.install import installed
from syncheck.sim.simulator import Simulator
from syncheck.trace.codec import TraceWriter

OLDEST_TORCH = (2, 8)
NO_CUDA_BACKEND = "this version checks on simulated GPUs only"


def check_torch() -> str:
    """Return torch's version.

    Raises:
        BackendError: torch is older than the oldest that is supported.
    """
    version = str(torch.__version__)
    numbers = tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".")[:2])
    if numbers < OLDEST_TORCH:
        raise BackendError(f"torch {version} is too old", "install torch 2.8 or newer: pip install 'torch>=2.8'")
    return version


class Check:
    """One program, checked on virtual GPUs.

    Args:
        options: how.
        make_session: makes the session that checks, given the backend in words.
        deliver: prints a report and returns the exit status that it calls for.
    """

    def __init__(
        self, options: Options, make_session: Callable[[str], Session], deliver: Callable[[Report], int]
    ) -> None:
        backend = f"{options.devices} simulated GPU{'s' if options.devices != 1 else ''}"
        self._options = options
        self._deliver = deliver
        self._session = make_session(backend)
        self._sites = SiteTable()
        self._trace = None
        if options.trace is not None:
            try:
                self._trace = TraceWriter(self._session, options.trace, self._sites, backend)
            except OSError as error:
                raise BackendError(f"cannot write the trace {options.trace}: {error.strerror}") from error
        monitor = self._trace or self._session
        self.simulator = Simulator(options.devices, monitor, self._sites, self._session.note, self._after_finding)

    def run(self, prepared: PreparedProgram) -> int:
        """Run the program and deliver the report; return the exit status."""
        with installed(self.simulator):
            outcome = execute(prepared, self._report_early)
            if outcome.is_child:
                return outcome.status
            self.simulator.finish()
        status = self._report()
        if outcome.interrupted:
            end_by_interrupt()
        return outcome.status or status

    def _report_early(self, status: int) -> int:
        self.simulator.finish()
        own = self._report()
        return status or own

    def _report(self) -> int:
        status = self._deliver(self._session.report(self._sites, self._options.max_findings))
        if self._trace is not None:
            try:
                self._trace.close()
            except OSError as error:
                sys.stderr.write(f"syncheck: the trace is incomplete: {error}\n")
                return status or 3
        return status

    def _after_finding(self) -> None:
        worst = self._session.ledger.worst
        if self._options.fail_fast and worst is not None and worst.rank <= self._options.fail_on.rank:
            self.simulator.is_checking = False
            sys.stdout.flush()
            status = self._report()
            sys.stderr.flush()
            real_exit(status)


real_exit = os._exit


def end_by_interrupt() -> None:
    """End this process as python does after an unhandled KeyboardInterrupt: by the signal itself."""
    import signal  # noqa: PLC0415

    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def check(
    prepared: PreparedProgram,
    options: Options,
    make_session: Callable[[str], Session],
    deliver: Callable[[Report], int],
) -> int:
    """Check a program; see `app.run`.

    Raises:
        BackendError: torch is too old, or real GPUs were asked for.
    """
    check_torch()
    has_cuda = torch.cuda.is_available()
    if options.backend == "cuda":
        hint = "use --backend sim" if has_cuda else "there is no CUDA device here; use --backend sim"
        raise BackendError(NO_CUDA_BACKEND, hint)
    job = Check(options, make_session, deliver)
    if has_cuda and options.backend == "auto":
        job.simulator.note(f"{NO_CUDA_BACKEND}: the CUDA devices of this machine were not used")
    return job.run(prepared)


def doctor() -> list[tuple[str, str]]:
    """Return what torch offers here."""
    rows = [("torch", check_torch())]
    cuda = f"{torch.cuda.device_count()} devices" if torch.cuda.is_available() else "no device"
    rows.append(("CUDA", f"{cuda}; {NO_CUDA_BACKEND}"))
    rows.append(("backend chosen by auto", "sim"))
    return rows
