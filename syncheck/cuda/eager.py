"""torch.compile: compiled functions run eagerly while they are checked, so that every operator is seen."""

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

_NOTE = "torch.compile runs eagerly while it is checked: the operators were checked, at eager speed"
_UNSEEN = "torch.cond, or a loop of torch, ran inside of a transformation of torch.func: what it ran was not checked"
"""A mode keeps torch from compiling them: of a condition that has a value for each row it would run one branch."""


def install_eager(note: Callable[[str], None], patches: Patches) -> None:
    """Have torch ignore `torch.compile`, also of functions that were compiled before.

    Else the compiler would try to compile the dispatch mode, and `fullgraph=True` would raise.
    """
    original: Any = torch.compile

    @wraps(original)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        note(_NOTE)
        return original(*args, **kwargs)

    @contextmanager
    def unseen(_: tuple[Any, ...]) -> Iterator[None]:
        note(_UNSEEN)
        with without_modes(WatchMode), _compiling():
            yield

    patches.everywhere({original: compiled})
    install_control_flow(original, unseen, patches)
    patches.finally_do(after_import("torch._dynamo", lambda: _be_eager(patches)))


def _be_eager(patches: Patches) -> None:
    """Set the compiler's stance; what the program sets it to meanwhile holds from the end of the check on.

    Source:
        torch/_dynamo/eval_frame.py, `_callback_from_stance`. The stance is one for all threads.
    """
    frames = import_module("torch._dynamo.eval_frame")
    set_stance = frames._set_stance  # all of torch's own ways to set it end there
    try:
        wanted = set_stance(frames.DynamoStance("force_eager"))
    except RuntimeError:  # inside of a compiled function, which runs compiled to its end
        return

    @wraps(set_stance)
    def keep(stance: Any) -> Any:
        nonlocal wanted
        before, wanted = wanted, stance
        return before

    patches.everywhere({set_stance: keep})
    patches.finally_do(lambda: set_stance(wanted))


@contextmanager
def _compiling() -> Iterator[None]:
    """Let torch compile what runs in a block."""
    frames = import_module("torch._dynamo.eval_frame")
    set_stance = unwrap(frames._set_stance)
    before = set_stance(frames.DynamoStance("default"))
    try:
        yield
    finally:
        set_stance(before)
