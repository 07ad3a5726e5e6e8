"""What a spawned child is sent so that it sees virtual GPUs. Free of torch: a child that needs none pays nothing.

Source:
    coverage.py measures spawned children in the same way: coverage/multiproc.py, `Stowaway`.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Wish:
    """Unpickled in a spawned child, lets it see virtual GPUs once it imports torch."""

    def __init__(self, n_devices: int) -> None:
        self.n_devices = n_devices

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "torch" in sys.modules:
            _install_in_child(self.n_devices)
        else:
            sys.meta_path.insert(0, _AfterTorch(self.n_devices))


class _AfterTorch(MetaPathFinder, Loader):
    """Installs the virtual GPUs when torch has been imported."""

    def __init__(self, n_devices: int) -> None:
        self._n_devices = n_devices

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return torch's own spec, with this loader around its loader."""
        del path, target
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._loader = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let torch's own loader decide."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Import torch, then install."""
        self._loader.exec_module(module)
        _install_in_child(self._n_devices)


def _install_in_child(n_devices: int) -> None:
    """Let the process see virtual GPUs until it ends; nothing is checked."""
    from syncheck.capture.patching import Patches  # noqa: PLC0415
    from syncheck.sim.install import install  # noqa: PLC0415  this module is free of torch
    from syncheck.sim.silent import NoSites, Silent  # noqa: PLC0415
    from syncheck.sim.simulator import Simulator, set_active  # noqa: PLC0415

    simulator = Simulator(n_devices, Silent(), NoSites(), lambda _: None, lambda: None)
    set_active(simulator)
    install(simulator, Patches())
    simulator.mode_class(simulator).__enter__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
