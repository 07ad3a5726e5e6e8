"""What a spawned child is sent so that it sees virtual GPUs where it is not checked."""

import importlib
from typing import Any

from syncheck.instrument.after_import import after_import


class SpawnPayload:
    """Unpickled in a spawned child, lets it see virtual GPUs once it imports torch."""

    def __init__(self, n_devices: int, device_type: str = "cuda") -> None:
        self.n_devices = n_devices
        self.device_type = device_type

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        after_import("torch", self._install)

    def _install(self) -> None:
        """Let the process see virtual GPUs until it ends; nothing is checked."""
        # by name: that module needs torch, which the child may never import
        importlib.import_module("syncheck.sim.unchecked").simulate_unchecked(self.n_devices, self.device_type)
