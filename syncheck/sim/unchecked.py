"""Virtual GPUs in a process that is not checked."""

from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.patching import Patches
from syncheck.sim.backend import Simulator
from syncheck.sim.null_monitor import NoSites, NullMonitor

_entered: list[TorchDispatchMode] = []  # torch 2.8 does not keep them alive


def simulate_unchecked(n_devices: int, device_type: str = "cuda") -> None:
    """Simulate virtual GPUs in this process until it ends."""
    simulator = Simulator(
        n_devices, NullMonitor(), NoSites(), lambda _: None, NewFindings(), lambda: None, device_type=device_type
    )
    simulator.runtime.activate()
    simulator.install(Patches())
    mode = simulator.new_mode()
    mode.__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    _entered.append(mode)
