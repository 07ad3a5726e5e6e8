"""Random numbers: each virtual device has a generator of its own, as each GPU has."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncheck.sim.runtime import active

RawGenerator = torch.Generator  # as it is before a run replaces it


class DeviceGenerator(RawGenerator):
    """A CPU generator that says it is on a virtual device."""

    device_index = 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # read-only in C as well
        """The virtual device."""
        return torch.device("cuda", self.device_index)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle a generator of a simulated GPU")


class Random:
    """The default generators of all virtual devices."""

    def __init__(self, n_devices: int) -> None:
        self.defaults = tuple(make_generator(index) for index in range(n_devices))
        seed = torch.initial_seed()
        for generator in self.defaults:
            generator.manual_seed(seed)

    def generator(self, device: int) -> DeviceGenerator:
        """Return a device's default generator."""
        return self.defaults[device]

    @contextmanager
    def drawing_from(self, device: int) -> Iterator[None]:
        """Let operators that take no generator draw from a device's, and leave the CPU's as it was."""
        cpu = torch.default_generator
        saved = cpu.get_state()
        own = self.defaults[device]
        cpu.set_state(own.get_state())
        try:
            yield
        finally:
            own.set_state(cpu.get_state())
            cpu.set_state(saved)


def make_generator(index: int) -> DeviceGenerator:
    """Return a new generator on a virtual device."""
    generator = DeviceGenerator()
    generator.device_index = index
    return generator


class _AnyGenerator(type(RawGenerator)):  # type: ignore[misc]  # the metaclass of a C type
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, RawGenerator)


class Generator(RawGenerator, metaclass=_AnyGenerator):
    """`torch.Generator`, which can also be made for a virtual device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return a generator on the CPU or on a virtual device."""
        if device is None or torch.device(device).type == "cpu":
            return RawGenerator()
        return make_generator(active().index_of(device))
