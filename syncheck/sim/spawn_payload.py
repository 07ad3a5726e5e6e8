"""What a spawned child is sent so that it sees virtual GPUs where it is not checked."""

from typing import Any

from syncheck.instrument.after_import import after_import


class SpawnPayload:
    """Unpickled in a spawned child, lets it see virtual GPUs once it imports torch."""

    def __init__(self, n_devices: int) -> None:
        self.n_devices = n_devices

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        after_import("torch", self._install)

    def _install(self) -> None:
        """Let the process see virtual GPUs until it ends; nothing is checked."""
        from syncheck.instrument.patching import Patches  # noqa: PLC0415
        from syncheck.sim.install import install  # noqa: PLC0415  this module is free of torch
        from syncheck.sim.null_monitor import NoSites, NullMonitor  # noqa: PLC0415
        from syncheck.sim.simulator import Simulator, set_active  # noqa: PLC0415

        simulator = Simulator(self.n_devices, NullMonitor(), NoSites(), lambda _: None, lambda: None)
        set_active(simulator)
        install(simulator, Patches())
        simulator.mode_class(simulator).__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
