"""Decides when a checking window may open and close, and coordinates the windows of a job's ranks."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch

from syncheck.instrument.c10d import c10d
from syncheck.instrument.torch_internals import current_node
from syncheck.run.budget import Controller, Decision

cuda: Any = torch.cuda  # typed as Any because its annotations are incomplete
_TIMEOUT = timedelta(seconds=30)
"""How long a rank waits for the decision of rank 0; all ranks make (nearly) the same steps."""
_RETRY_STEPS = 16
"""Units until ranks without a process group try again."""
_MAX_KEYS = 64
_KEY = "syncheck/budget/{}/{}"


def is_safe() -> bool:
    """Return whether a window can begin or end here: outside of backward passes and captures.

    An optimizer that steps inside a backward pass runs in a thread of the engine, whose modes end with the pass.
    """
    if current_node() is not None:
        return False
    return not (cuda.is_initialized() and cuda.is_current_stream_capturing())


class StoreAgreement:
    """Lets rank 0 decide for all ranks, through the store of their process group.

    All ranks decide after the same number of steps, because each decision determines the next. They therefore
    communicate once before each window, and not in between. The key of an answer consists of the agreement's number and
    the number of steps.

    Args:
        incomplete: takes a reason why no further windows are opened.
        is_expected: whether this process is one of several, which will create a process group.
        number: number of this agreement, the same in all ranks; an earlier one's answers stay in the store.
    """

    def __init__(self, incomplete: Callable[[str], None], *, is_expected: bool, number: int = 0) -> None:
        self._incomplete = incomplete
        self._is_expected = is_expected
        self._is_lost = False
        self._number = number
        self._keys: deque[str] = deque()  # on rank 0: the keys in the store

    def is_alone(self) -> bool:
        """Implements `syncheck.run.sampler.Agreement`."""
        return not self._is_expected and _world() < 2

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """Implements `syncheck.run.sampler.Agreement`."""
        if self.is_alone():
            return controller.decide(is_new=is_new)
        if _world() < 2 or self._is_lost:
            return controller.wait(_RETRY_STEPS)
        store, key = c10d._get_default_store(), _KEY.format(self._number, controller.number)
        if c10d.get_rank() == 0:
            decision = controller.decide()
            store.set(key, f"{decision.length} {decision.next_at}")
            self._delete_old(store, key)
            return decision
        return self._adopt(controller, store, key)

    def _delete_old(self, store: Any, key: str) -> None:
        """Remove an answer that all ranks have read long ago, if the store supports it."""
        self._keys.append(key)
        if len(self._keys) > _MAX_KEYS:
            with suppress(Exception):
                store.delete_key(self._keys.popleft())

    def _adopt(self, controller: Controller, store: Any, key: str) -> Decision:
        try:
            store.wait([key], _TIMEOUT)
            length, next_at = map(int, bytes(store.get(key)).decode().split())
        except Exception:  # noqa: BLE001  any kind of store, of a job that may be ending
            self._is_lost = True
            self._incomplete(_LOST.format(controller.number))
            return controller.wait(_RETRY_STEPS)
        return controller.adopt(Decision(length, next_at, next_at))


_LOST = (
    "no window was opened after {:,} steps, because rank 0 decided on none there: ranks that run different steps "
    "cannot open windows together"
)


def _world() -> int:
    """Return the number of ranks; 0 while there is no process group."""
    return int(c10d.get_world_size()) if c10d is not None and c10d.is_initialized() else 0
