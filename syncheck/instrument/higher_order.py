"""Higher-order operators, such as `flex_attention`: under modes in torch 2.8, and with other dispatch keys."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, HigherOrderOperator


def install_higher_order_operators(patches: Patches) -> None:
    """Pass higher-order operators to modes with `supports_higher_order_operators`, as newer versions of torch do.

    Without it, torch 2.8 raises NotImplementedError for each operator that has no rule for the type of the mode.

    Source:
        torch/_ops.py, `HigherOrderOperator.dispatch`.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    original: Any = HigherOrderOperator.dispatch

    def dispatch(operator: Any, /, dispatch_key: Any, *args: Any, **kwargs: Any) -> Any:
        mode: Any = _get_current_dispatch_mode() if dispatch_key == C.DispatchKey.Python else None
        is_supported = getattr(mode, "supports_higher_order_operators", False)
        if not is_supported or type(mode) in operator.python_key_table:
            return original(operator, dispatch_key, *args, **kwargs)
        with _pop_mode_temporarily():
            return mode.__torch_dispatch__(operator, [], args, kwargs)

    patches.set(HigherOrderOperator, "dispatch", dispatch)


def pass_over(name: str, patches: Patches) -> None:
    """Make higher-order operators pass over a dispatch key, as other operators do that have no kernel for it.

    Source:
        torch/_ops.py, `HigherOrderOperator.__call__`: it looks for a kernel for the first key of all.
    """
    original: Any = torch._ops._compute_keyset
    key = C._parse_dispatch_key(name)

    def keys_of(args: Any, kwargs: Any, candidates: Any) -> Any:
        return original(args, kwargs, candidates.remove(key))

    patches.set(torch._ops, "_compute_keyset", keys_of)
