"""What a spawned child is sent so that it is checked as its parent is, and leaves its part to it."""

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
    """Unpickled in a spawned child, checks it from the moment on when it has imported torch.

    Attributes:
        options: the parent's.
        folder: where it merges the parts of its children.
    """

    options: Options
    folder: Path

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "folder": str(self.folder)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        options = replace(state["options"], output=None, trace=None, baseline=None, write_baseline=False, steps=None)
        self.options, self.folder = options, Path(state["folder"])
        os.environ[rendezvous.PARTS] = state["folder"]
        child = _Child(options)
        after_import("torch", child.begin)
        child.follow()


def sender(member: rendezvous.Membership, options: Options) -> Callable[[], Checked | None]:
    """Return what makes the data for a spawned child: None where it could not leave a part."""

    def send() -> Checked | None:
        folder = member.folder_for_children()
        return Checked(options, folder) if folder is not None else None

    return send


class _Child:
    """The check of this process."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pid = os.getpid()
        self._ended: Callable[[int], int] | None = None
        self._stack = ExitStack()

    def begin(self) -> None:
        """Torch is there."""
        from syncheck.run.process import make_run  # noqa: PLC0415  a child without torch needs none of it

        member = rendezvous.begin(None)
        member.for_spawned = sender(member, self._options)
        run = make_run(self._options, lambda _: 0)
        self._stack.enter_context(run.watching())
        self._ended = run.end

    def follow(self) -> None:
        """Report when the process is through, however it ends.

        Source:
            multiprocessing/spawn.py, `_main`: unpickles this, then calls `_bootstrap` and ends with what it returns.
        """
        from syncheck.run.launcher.exit_hook import ExitHook  # noqa: PLC0415  as above

        original = process.BaseProcess._bootstrap  # type: ignore[attr-defined]  # noqa: SLF001  as above

        @wraps(original)
        def bootstrap(*args: Any, **kwargs: Any) -> int:
            if os.getpid() != self._pid:  # a forked child of this one
                return int(original(*args, **kwargs))
            with ExitHook(self._end) as words:
                status = int(original(*args, **kwargs))
                self._stack.close()
                return words.speak(status)  # inside: a pool ends its workers by SIGTERM as they end by themselves

        process.BaseProcess._bootstrap = bootstrap  # type: ignore[attr-defined]  # noqa: SLF001

    def _end(self, status: int) -> int:
        if self._ended is not None:
            self._ended(status)
        return status
