"""torch.compile: compiled functions run eagerly during a check, so that every operator is seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from inspect import unwrap
from typing import Any

import torch

from syncheck.cuda.mode import WatchMode
from syncheck.instrument.after_import import after_import
from syncheck.instrument.control_flow import install_control_flow
from syncheck.instrument.modes import without_modes
from syncheck.instrument.patching import Patches

_NOTE = "torch.compile is disabled during a check: the operators ran eagerly, at eager speed"
_UNCHECKED = "torch.cond or a torch loop ran inside a torch.func transformation: its operators were not checked"
"""A mode prevents compiling them, and a condition with one value per row would then run a single branch."""


def install_eager(note: Callable[[str], None], patches: Patches) -> None:
    """Make torch ignore `torch.compile`, including for functions that are already compiled.

    Otherwise the compiler would try to compile the dispatch mode, and `fullgraph=True` would raise.
    """
    original: Any = torch.compile

    @wraps(original)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        note(_NOTE)
        return original(*args, **kwargs)

    @contextmanager
    def unseen(_: tuple[Any, ...]) -> Iterator[None]:
        note(_UNCHECKED)
        with without_modes(WatchMode), _compiling():
            yield

    patches.everywhere({original: compiled})
    install_control_flow(original, unseen, patches)
    patches.on_undo(after_import("torch._dynamo", lambda: _run_eagerly(patches)))


def _run_eagerly(patches: Patches) -> None:
    """Force the compiler's stance to eager; a stance that the program sets meanwhile takes effect after the check.

    Source:
        torch/_dynamo/eval_frame.py, `_callback_from_stance`. All threads share one stance.
    """
    frames = import_module("torch._dynamo.eval_frame")
    set_stance = frames._set_stance  # all of torch's own setters call it
    try:
        wanted = set_stance(frames.DynamoStance("force_eager"))
    except RuntimeError:  # inside a compiled function, which runs compiled to its end
        return

    @wraps(set_stance)
    def keep(stance: Any) -> Any:
        nonlocal wanted
        before, wanted = wanted, stance
        return before

    patches.everywhere({set_stance: keep})
    patches.on_undo(lambda: set_stance(wanted))


@contextmanager
def _compiling() -> Iterator[None]:
    """Let torch compile the functions that run in a block."""
    frames = import_module("torch._dynamo.eval_frame")
    set_stance = unwrap(frames._set_stance)
    before = set_stance(frames.DynamoStance("default"))
    try:
        yield
    finally:
        set_stance(before)
