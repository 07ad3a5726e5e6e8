"""Data sent to a spawned child so that it is checked like its parent and leaves its report to it."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from multiprocessing import process
from pathlib import Path
from typing import Any

from syncheck.config.options import Options
from syncheck.instrument.after_import import after_import
from syncheck.ranks import rendezvous


@dataclass(slots=True)
class Checked:
    """When unpickled in a spawned child, starts checking it once it has imported torch.

    Attributes:
        options: the parent's options.
        folder: the folder in which the parent merges the records of its children.
    """

    options: Options
    folder: Path

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "folder": str(self.folder)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.options, self.folder = state["options"], Path(state["folder"])
        os.environ[rendezvous.PARTS] = state["folder"]
        child = _Child(self.options)
        after_import("torch", child.begin)
        child.follow()


def sender(member: rendezvous.Membership, options: Options) -> Callable[[], Checked | None]:
    """Return a function that creates the data for a spawned child, or None if the child could not leave a record."""

    def send() -> Checked | None:
        folder = member.folder_for_children()
        return Checked(options, folder) if folder is not None else None

    return send


_RECORDINGS = ("trace", "perfetto", "html")
"""The settings that record a run: a spawned process has no name of its own for a file until it knows its rank."""


class _Child:
    """The check of this process."""

    def __init__(self, options: Options) -> None:
        self._options = replace(
            options, output=None, baseline=None, write_baseline=False, trace=None, perfetto=None, html=None
        )
        self._unrecorded = [f"--{name}" for name in _RECORDINGS if getattr(options, name) is not None]
        self._pid = os.getpid()
        self._ended: Callable[[int], int] | None = None
        self._stack = ExitStack()

    def begin(self) -> None:
        """Start checking, after the import of torch."""
        from syncheck.run.process import make_run  # noqa: PLC0415  a child without torch needs none of it

        member = rendezvous.begin(None)
        member.for_spawned = sender(member, self._options)
        run = make_run(self._options, lambda _: 0)
        if self._unrecorded:
            run.session.note(f"{', '.join(self._unrecorded)}: spawned processes are checked, but not recorded")
        self._stack.enter_context(run.watching())
        self._ended = run.end

    def follow(self) -> None:
        """Report at the end of the process, however it ends.

        Source:
            multiprocessing/spawn.py, `_main`: unpickles this, then calls `_bootstrap` and ends with what it returns.
        """
        from syncheck.run.launcher.exit_hook import ExitHook  # noqa: PLC0415  as above

        original = process.BaseProcess._bootstrap  # type: ignore[attr-defined]  # noqa: SLF001  as above

        @wraps(original)
        def bootstrap(*args: Any, **kwargs: Any) -> int:
            if os.getpid() != self._pid:  # a forked child of this one
                return int(original(*args, **kwargs))
            with ExitHook(self._end) as exit_hook:
                status = int(original(*args, **kwargs))
                self._stack.close()
                return exit_hook.call_at_exit(status)  # inside the hook: a pool may SIGTERM workers that are exiting

        process.BaseProcess._bootstrap = bootstrap  # type: ignore[attr-defined]  # noqa: SLF001

    def _end(self, status: int) -> int:
        if self._ended is not None:
            self._ended(status)
        return status
