"""torch.compile: compiled functions run eagerly while they are checked, so that every operator is seen."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from syncheck.capture.patching import Patches

_NOTE = "torch.compile runs eagerly while it is checked: the operators were checked, at eager speed"


def install_eager(note: Callable[[str], None], patches: Patches) -> None:
    """Have torch ignore `torch.compile`, also of functions that were compiled before.

    Without that, torch 2.11 tries to compile the dispatch mode too, and raises with `fullgraph=True`; 2.13 does not.

    Source:
        torch/_dynamo/eval_frame.py, `_callback_from_stance`. The stance is one for all threads.
    """
    set_stance, original = torch.compiler.set_stance, torch.compile
    is_eager = False

    def be_eager() -> None:
        nonlocal is_eager
        if not is_eager:
            is_eager = True
            stance = set_stance("force_eager")
            patches.finally_do(lambda: stance.__exit__(None, None, None))

    @wraps(original)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        note(_NOTE)
        be_eager()
        return original(*args, **kwargs)

    @wraps(set_stance)
    def keep_stance(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs  # whatever the program asks for
        return set_stance("force_eager")

    patches.everywhere({original: compiled, set_stance: keep_stance})
    if "torch._dynamo" in sys.modules:  # else nothing is compiled yet, and to import it takes a second
        be_eager()
