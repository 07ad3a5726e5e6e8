"""Child processes of the program: checks those that it can, and reports the others."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from multiprocessing import process, spawn
from typing import Any

from torch.utils.data import _utils

from syncheck.instrument.patching import Patches
from syncheck.ranks import rendezvous

NOT_CHECKED = "a spawned process was not checked"
_LAUNCHERS = re.compile(r"(python|pypy)[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun")
_PLAIN_FLAGS = re.compile(r"-[bBdEiIOPqRsSuvx]+")
"""Python flags that take no argument."""


def install_children(patches: Patches, incomplete: Callable[[str], None], spawned: Callable[[], object]) -> None:
    """Track the programs and processes that the program starts.

    Args:
        patches: registers the replacements.
        incomplete: takes a reason why something is not checked.
        spawned: returns the data to send to a spawned child that is not checked; None for nothing.
    """
    _install_programs(patches, incomplete)
    _install_spawn(patches, incomplete, spawned)


def _install_programs(patches: Patches, incomplete: Callable[[str], None]) -> None:
    start = subprocess.Popen.__init__

    @wraps(start)
    def start_noted(self: Any, args: Any, *more: Any, **kwargs: Any) -> None:
        name = _program(args)
        if _LAUNCHERS.fullmatch(name) and not _is_checked_itself(args):
            checked = _checked(args, kwargs.get("env"))
            if checked is None:
                incomplete(f"a program started with `{name}` was not checked")
            else:
                args, kwargs["env"] = checked
        start(self, args, *more, **kwargs)

    patches.set(subprocess.Popen, "__init__", start_noted)


def note_replaced(path: Any, arguments: Any, incomplete: Callable[[str], None]) -> None:
    """Report a program that replaces this one through `os.execv` as unchecked, if it may use GPUs."""
    name = "" if isinstance(path, int) else os.path.basename(os.fsdecode(path))  # it may be a file descriptor
    if _LAUNCHERS.fullmatch(name) and not _is_checked_itself(list(arguments)):
        incomplete(f"`{name}`, which replaced the program through os.exec, was not checked")


def _program(args: Any) -> str:
    """Return the name of the program that a command starts; "" if unknown."""
    try:
        arguments = shlex.split(args) if isinstance(args, str) else [os.fsdecode(argument) for argument in args]
    except (TypeError, ValueError):
        return ""
    return os.path.basename(arguments[0]) if arguments else ""


def _is_checked_itself(args: Any) -> bool:
    """Return whether a command is `python -m syncheck ...`."""
    return isinstance(args, list | tuple) and [os.fsdecode(word) for word in args[1:3]] == ["-m", "syncheck"]


def _checked(args: Any, environment: Any) -> tuple[list[str], dict[str, str]] | None:
    """Return command and environment that make a rank started by a launcher checked; None for other commands.

    Source:
        torch/distributed/run.py, `config_from_args`: `python -u SCRIPT ARGS`, or `python -u -m MODULE ARGS`.
    """
    member = rendezvous.active
    if member is None or isinstance(args, str) or not environment or not _is_rank(environment):
        return None
    arguments = [os.fsdecode(argument) for argument in args]
    at = next(
        (i for i, argument in enumerate(arguments[1:], 1) if not _PLAIN_FLAGS.fullmatch(argument)), len(arguments)
    )
    if (
        arguments[0] != sys.executable
        or at == len(arguments)
        or (arguments[at].startswith("-") and arguments[at] != "-m")
    ):
        return None
    if "syncheck" in arguments[at : at + 2]:
        return arguments, dict(environment)
    is_whole = environment.get("LOCAL_WORLD_SIZE", "1") == environment["WORLD_SIZE"]
    folder = member.folder_for_children() if is_whole else None  # with several machines, the ranks merge themselves
    environment = {**environment, **({rendezvous.PARTS: str(folder)} if folder is not None else {})}
    member.has_children = True
    return [*arguments[:at], "-m", "syncheck", "run", *member.arguments, *arguments[at:]], environment


def _is_rank(environment: Any) -> bool:
    """Return whether an environment belongs to a rank; Lightning sets only the local rank.

    Source:
        lightning/fabric/strategies/launchers/subprocess_script.py, `_call_children_scripts`.
    """
    return "WORLD_SIZE" in environment and ("RANK" in environment or "LOCAL_RANK" in environment)


def _install_spawn(patches: Patches, incomplete: Callable[[str], None], spawned: Callable[[], object]) -> None:
    """Add the data that makes a spawned child checked to its preparation data; workers of a DataLoader are not checked.

    Source:
        multiprocessing/popen_spawn_posix.py and popen_forkserver.py, `_launch`; spawn.py: the child unpickles the
        preparation data before it imports the program, and ignores unknown entries.
    """
    prepare, start = spawn.get_preparation_data, process.BaseProcess.start
    starting: list[Any] = []

    @wraps(start)
    def start_noted(self: Any) -> None:
        starting.append(self)
        try:
            start(self)
        finally:
            starting.remove(self)

    @wraps(prepare)
    def prepare_child(name: str) -> dict[str, Any]:
        data = prepare(name)
        if any(_is_loader(child) for child in starting):
            data["syncheck"] = spawned()
            return data
        member = rendezvous.active
        sent = member.for_spawned() if member is not None else None
        if sent is None:
            incomplete(NOT_CHECKED)
            sent = spawned()
        data["syncheck"] = sent
        return data

    patches.set(process.BaseProcess, "start", start_noted)
    patches.set(spawn, "get_preparation_data", prepare_child)


def _is_loader(child: Any) -> bool:
    return getattr(child, "_target", None) is _utils.worker._worker_loop  # the target of DataLoader's workers
