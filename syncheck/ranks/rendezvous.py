"""How the processes of a job find each other's parts, and which of them writes the report.

A parent that is checked itself (`syncheck run --nproc`, or a program that spawns its ranks or starts them with
`torch.distributed.run`) passes a folder to its children, and merges their parts when it ends. Ranks started by another
launcher (torchrun, srun) agree on a folder through the store of their process group, and the last one to end merges.
There is no other communication.

Source:
    torch/csrc/distributed/c10d/Store.hpp, `compareSet`: an empty expected value sets a key that does not exist.
"""

import contextlib
import json
import os
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from syncheck.errors import RecordError
from syncheck.findings import Report
from syncheck.paths import relative_path
from syncheck.ranks import merging, watchdog, writer
from syncheck.ranks.writer import Process
from syncheck.system import job, processes

PARTS = "SYNCHECK_PARTS"
"""Environment variable with the folder in which a parent expects the parts of its children."""
_KEY, _READY = "syncheck/folder", "syncheck/ready"
_END_TIMEOUT = timedelta(seconds=30)
_VISIBILITY_TIMEOUT = 5.0
"""Seconds within which a folder created on another machine must become visible."""
_GRACE_TIMEOUT = 5.0
"""Seconds that rank 0 of a failing job waits for the others."""


def _job_name() -> str:
    return f"job-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"


@contextlib.contextmanager
def folder_for_ranks(wanted: Path | None) -> Iterator[Path]:
    """Yield a folder for the records of ranks that this process starts.

    Args:
        wanted: the user's folder for jobs, in which the records are kept; None for a temporary folder.

    Raises:
        RecordError: the user's folder cannot be written.
    """
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="syncheck-") as temporary:
            yield Path(temporary)
        return
    folder = wanted.absolute() / _job_name()
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise RecordError(f"cannot write to {wanted}: {error.strerror}", "specify another --ranks-dir") from error
    yield folder


class Membership:
    """The membership of this process in its job.

    Attributes:
        unmerged_reason: why the ranks of this job are not merged; "" if they are, or if there is only one.
        has_children: ranks that this process has started are checked.
        arguments: command-line arguments for ranks that this process starts.
        on_join: called when this process becomes a rank.
        for_spawned: returns the data that makes a spawned child checked; None if it cannot be checked.

    Args:
        wanted: the user's folder for jobs; None to use `.syncheck`, and to remove the job's folder after the report.
    """

    def __init__(self, wanted: Path | None) -> None:
        self.unmerged_reason = ""
        self._invisible = ""
        self._wanted = wanted
        self._is_merger = False
        parent = os.environ.get(PARTS)
        self._has_parent = parent is not None
        self.has_children = False
        self.arguments: tuple[str, ...] = ()
        self.on_join: Callable[[], None] = lambda: None
        self.for_spawned: Callable[[], object | None] = lambda: None
        if parent is not None:
            self._begin(Path(parent), _process())

    def _begin(self, folder: Path, process: Process) -> None:
        try:
            writer.begin(folder, process)
        except OSError as error:
            self.unmerged_reason = f"cannot write to {folder}: {error.strerror}"

    # -- as a parent

    def folder_for_children(self) -> Path | None:
        """Return the folder for the parts of children; None if it cannot be written."""
        recorder = writer.current()
        if recorder is None:
            self._begin(Path(tempfile.mkdtemp(prefix="syncheck-")), Process())
            self._is_merger = True
            recorder = writer.current()
        return recorder.folder if recorder is not None else None

    # -- as a rank

    def join(self, store: Any, rank: int, size: int) -> None:
        """Join a job after this process has become a rank.

        Args:
            store: the process group's `torch.distributed.Store`.
            rank: the rank in the job.
            size: number of ranks.
        """
        if size < 2:
            return
        self.on_join()
        recorder = writer.current()
        if recorder is not None:
            recorder.set_process(Process(rank, size, _attempt()))
            return
        try:
            folder = self._agree_on_folder(store)
        except Exception as error:  # noqa: BLE001  any kind of store; the program continues to use it
            self.unmerged_reason = f"the ranks could not agree on a folder: {type(error).__name__}: {error}"
            return
        if folder is not None:
            self._begin(folder, Process(rank, size, _attempt()))
            watchdog.arm()

    def _agree_on_folder(self, store: Any) -> Path | None:
        proposal = json.dumps([uuid.uuid4().hex, socket.gethostname()])
        value = bytes(store.compare_set(_KEY, "", proposal)).decode()
        if value == proposal:
            created, problem = self._create_folder()
            store.set(_READY, json.dumps([str(created or ""), problem]))
            self.unmerged_reason = problem
            return created
        _, host = json.loads(value)
        store.wait([_READY], _END_TIMEOUT)
        path, self.unmerged_reason = json.loads(bytes(store.get(_READY)).decode())
        return None if self.unmerged_reason else self._wait_until_visible(Path(path), host)

    def _create_folder(self) -> tuple[Path | None, str]:
        """Create the job's folder: in the user's folder, else in `.syncheck`, else in the temporary folder.

        Returns:
            The folder, or None and the reason.
        """
        name = _job_name()
        default = Path(".syncheck").absolute()
        problem = ""
        for folder in [self._wanted / name] if self._wanted else [default / name, Path(tempfile.gettempdir(), name)]:
            try:
                folder.mkdir(parents=True)
            except OSError as error:
                problem = f"cannot write to {folder.parent}: {error.strerror}; specify a folder with --ranks-dir"
                continue
            if folder.parent == default:
                with contextlib.suppress(OSError):
                    (default / ".gitignore").write_text("*\n", encoding="ascii")
            return folder.absolute(), ""
        return None, problem

    def _wait_until_visible(self, folder: Path, host: str) -> Path | None:
        """Return a folder that another machine may have created; if it is not visible, one for this machine's ranks."""
        deadline = time.monotonic() + _VISIBILITY_TIMEOUT
        while not folder.is_dir():
            if time.monotonic() > deadline:
                return self._create_local_folder(folder, host)
            time.sleep(0.1)
        return folder

    def _create_local_folder(self, folder: Path, host: str) -> Path | None:
        """Create a folder for this machine's ranks, named after the job's, so that they all find it."""
        this = socket.gethostname()
        invisible = f"{folder}, created on {host}, is not visible on {this}"
        for candidate in (folder, Path(".syncheck").absolute() / folder.name, Path(tempfile.gettempdir(), folder.name)):
            with contextlib.suppress(OSError):
                candidate.mkdir(parents=True, exist_ok=True)
                self._invisible = (
                    f"{invisible}: this report covers only the ranks of {this}. Copy the folders of all machines to "
                    "one and merge them with `syncheck merge FOLDER FOLDER`, or specify a shared folder with "
                    "--ranks-dir"
                )
                return candidate
        self.unmerged_reason = f"{invisible}, which cannot create its own: specify a shared folder with --ranks-dir"
        return None

    # -- the end

    def end(self, report: Report, status: int, ran: list[str], unused: list[str]) -> merging.Merged | None:
        """Write the end of this process; return the job's report if this process is the one that writes it.

        Raises:
            OSError: the end could not be written.
        """
        recorder = writer.current()
        assert recorder is not None  # not called for a process that is alone
        folder, process = recorder.folder, recorder.process
        recorder.end(status, report, ran, unused)
        writer.active = None
        if self._is_merger:
            merged = merging.merge([folder])
            merging.remove(folder)
            return merged
        if self._has_parent and not (folder / watchdog.MARK).exists():
            return None
        is_last = self._is_last(folder, process, status)
        if self._has_parent or not is_last or not merging.claim(folder):
            return None
        merged = merging.merge([folder])
        if not merged.is_complete:
            hint = f"the ranks' records were kept: syncheck merge {relative_path(folder, os.curdir)}"
            reasons = [self._invisible] if self._invisible else []
            merged.report = replace(merged.report.noted(hint), incomplete=(*reasons, *merged.report.incomplete))
        elif self._wanted is None:
            merging.remove(folder)
        return merged

    @staticmethod
    def _is_last(folder: Path, process: Process, status: int) -> bool:
        """Return whether no other process remains that could merge.

        A rank without a part is waited for briefly, because it may be joining. In a failing job, rank 0 does not wait
        for long. A job that hangs never ends by itself, so its remaining processes are killed.
        """
        began = time.monotonic()
        while not merging.is_claimed(folder):
            waited = time.monotonic() - began
            all_ended = merging.all_ended(folder)
            if all_ended and (merging.count_ranks(folder) >= process.size or waited > _VISIBILITY_TIMEOUT):
                return True
            if waited > _GRACE_TIMEOUT and (folder / watchdog.MARK).exists():
                merging.kill_all(folder)
                return True
            if not all_ended and (not status or waited > _GRACE_TIMEOUT):
                return bool(status) and process.rank == 0
            time.sleep(0.1)
        return False


def _attempt() -> int:
    """Return how often torchrun has restarted this job.

    Source:
        torch/distributed/elastic/agent/server/local_elastic_agent.py, `_start_workers`.
    """
    text = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    return int(text) if text.isdecimal() else 0


def _process() -> Process:
    """Return the identity of this process according to the environment."""
    rank, size = job.rank_and_size()
    return Process(rank, size, _attempt()) if rank >= 0 and size else Process()


active: Membership | None = None
"""The membership of this process; None if it was not requested."""


def begin(wanted: Path | None) -> Membership:
    """Determine whether this process is one of several."""
    global active  # noqa: PLW0603  one per process
    active = Membership(wanted)
    processes.after_fork_in_child(_reset_in_child)
    return active


def _reset_in_child() -> None:
    """Drop the membership in a forked child, which is neither checked nor a rank."""
    global active  # noqa: PLW0603  one per process
    active = None
