"""Payload for spawned child processes that are not checked, so that they see virtual GPUs."""

import importlib
from typing import Any

from syncheck.instrument.after_import import after_import


class SpawnPayload:
    """An object that, when unpickled in a spawned child, simulates virtual GPUs once the child imports torch."""

    def __init__(self, n_devices: int, device_type: str = "cuda") -> None:
        self.n_devices = n_devices
        self.device_type = device_type

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        after_import("torch", self._install)

    def _install(self) -> None:
        """Simulate virtual GPUs until the process ends, without checking."""
        # imported lazily: that module needs torch, which the child may never import
        importlib.import_module("syncheck.sim.unchecked").simulate_unchecked(self.n_devices, self.device_type)
