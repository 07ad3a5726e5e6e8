"""Where a window can be opened and closed, and how the ranks of a job do it together."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch

from syncheck.instrument.c10d import c10d
from syncheck.instrument.torch_internals import current_node
from syncheck.run.budget import Controller, Decision

cuda: Any = torch.cuda  # without its missing annotations
_PATIENCE = timedelta(seconds=30)
"""Of a rank that waits for what rank 0 decides: all of them make the same steps, or nearly so."""
_LATER = 16
"""Units until the ranks try again that have no process group yet."""
_KEPT = 64
_KEY = "syncheck/budget/{}"


def is_safe() -> bool:
    """Return whether a window can begin or end here: not inside of a backward pass, nor of a capture.

    An optimizer that steps inside of a backward pass does so in a thread of the engine, whose modes end with the pass.
    """
    if current_node() is not None:
        return False
    return not (cuda.is_initialized() and cuda.is_current_stream_capturing())


class StoreAgreement:
    """Rank 0 decides, and the others do as it does: by the store of their process group.

    All ask at the same number of steps, as what they ask next follows from the answer. So they communicate once before
    each window, and not between: each answer has the number of steps for a key.

    Args:
        incomplete: takes a reason why no window is opened any more.
        is_expected: this process is one of several, which will make a process group.
    """

    def __init__(self, incomplete: Callable[[str], None], *, is_expected: bool) -> None:
        self._incomplete = incomplete
        self._is_expected = is_expected
        self._is_lost = False
        self._keys: deque[str] = deque()  # of rank 0, those in the store

    def is_alone(self) -> bool:
        """See `syncheck.run.sampler.Agreement`."""
        return not self._is_expected and _world() < 2

    def decide(self, controller: Controller, *, is_new: bool) -> Decision:
        """See `syncheck.run.sampler.Agreement`."""
        if self.is_alone():
            return controller.decide(is_new=is_new)
        if _world() < 2 or self._is_lost:
            return controller.wait(_LATER)
        store, key = c10d._get_default_store(), _KEY.format(controller.number)
        if c10d.get_rank() == 0:
            decision = controller.decide()
            store.set(key, f"{decision.length} {decision.next_at}")
            self._tidy(store, key)
            return decision
        return self._follow(controller, store, key)

    def _tidy(self, store: Any, key: str) -> None:
        """Remove an answer that all ranks have long had, where the store can do so."""
        self._keys.append(key)
        if len(self._keys) > _KEPT:
            with suppress(Exception):
                store.delete_key(self._keys.popleft())

    def _follow(self, controller: Controller, store: Any, key: str) -> Decision:
        try:
            store.wait([key], _PATIENCE)
            length, next_at = map(int, bytes(store.get(key)).decode().split())
        except Exception:  # noqa: BLE001  a store of any kind, of a job that may be ending
            self._is_lost = True
            self._incomplete(_LOST.format(controller.number))
            return controller.wait(_LATER)
        return controller.adopt(Decision(length, next_at, next_at))


_LOST = (
    "no window was opened after {:,} steps, where rank 0 made no decision: ranks that make different steps cannot open "
    "windows together"
)


def _world() -> int:
    """Return the number of ranks; 0 as long as there is no process group."""
    return int(c10d.get_world_size()) if c10d is not None and c10d.is_initialized() else 0
