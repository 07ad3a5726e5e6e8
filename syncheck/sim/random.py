"""Random numbers: each virtual device has its own generator, like a real GPU."""

import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from syncheck.instrument.torch_internals import generator_address as address_of
from syncheck.sim.device_kind import gpu, is_on_gpu
from syncheck.sim.runtime import active

RawGenerator = torch.Generator  # the original class, before a run replaces it
_MASK = (1 << 64) - 1
_drawing = threading.RLock()
"""Held while an operator draws, because all threads share a generator."""
_STATE = struct.Struct("<QQ")
_SEED = struct.Struct("<Q")
_by_address: "weakref.WeakValueDictionary[int, DeviceGenerator]" = weakref.WeakValueDictionary()


@dataclass(slots=True, eq=False)
class State:
    """State of a generator. Generators can share a state and switch between states.

    Source:
        aten/src/ATen/cuda/CUDAGeneratorImpl.h, `CUDAGeneratorState`.
    """

    seed: int = 67280421310721  # c10/core/GeneratorImpl.h, `default_rng_seed_val`
    offset: int = 0


class DeviceGenerator(RawGenerator):
    """A CPU generator that reports a virtual device and has the state of a GPU generator: a seed and an offset.

    Before each operator that draws, it is seeded with both, and afterwards the offset is increased.

    Source:
        aten/src/ATen/cuda/CUDAGeneratorImpl.cpp: `get_state`, `set_state`, `set_offset`, `philox_cuda_state`.
    """

    device_index: int
    state: State

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # read-only in C as well
        """The virtual device."""
        return gpu(self.device_index)

    def manual_seed(self, seed: int) -> "DeviceGenerator":
        """Restart the sequence with this seed."""
        self.state.seed, self.state.offset = int(seed) & _MASK, 0
        return self

    def seed(self) -> int:
        """Restart the sequence with a new random seed, and return the seed."""
        self.manual_seed(RawGenerator.seed(self))
        return self.state.seed

    def initial_seed(self) -> int:
        """Return the seed."""
        return self.state.seed

    def get_offset(self) -> int:
        """Return the current offset in the seed's sequence."""
        return self.state.offset

    def set_offset(self, offset: int) -> "DeviceGenerator":
        """Set the offset in the seed's sequence."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self.state.offset = offset
        return self

    def get_state(self) -> torch.Tensor:
        """Return seed and offset as 16 bytes."""
        with active().unmonitored():
            return torch.frombuffer(
                bytearray(_STATE.pack(self.state.seed, self.state.offset)), dtype=torch.uint8
            ).clone()

    def set_state(self, new_state: torch.Tensor) -> "DeviceGenerator":
        """Set seed and offset. If only a seed is given, the offset is 0."""
        if is_on_gpu(new_state) or new_state.dtype != torch.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        data = bytes(new_state.tolist())
        if len(data) not in {_SEED.size, _STATE.size}:
            raise RuntimeError("RNG state is wrong size")
        seed, offset = _STATE.unpack(data) if len(data) == _STATE.size else (*_SEED.unpack(data), 0)
        self.state.seed, self.state.offset = seed, offset
        return self

    def clone_state(self) -> "DeviceGenerator":
        """Return a generator with a copy of this state."""
        return make_generator(self.device_index, replace(self.state))

    def graphsafe_get_state(self) -> "DeviceGenerator":
        """Return a generator that shares this state."""
        return make_generator(self.device_index, self.state)

    def graphsafe_set_state(self, state: "DeviceGenerator") -> "DeviceGenerator":  # type: ignore[override]  # as in C
        """Share the state of another generator from now on."""
        self.state = state.state
        return self

    @contextmanager
    def using(self, state: State) -> Iterator[None]:
        """Draw from the given state during a block."""
        previous, self.state = self.state, state
        try:
            yield
        finally:
            self.state = previous

    @contextmanager
    def drawing(self, n_numbers: int) -> Iterator[RawGenerator]:
        """Seed the generator for an operator that draws about `n_numbers` numbers, and advance it afterwards."""
        with _drawing:
            state = self.state
            RawGenerator.manual_seed(self, _mix(state.seed, state.offset))
            yield self
            self.skip(n_numbers)

    def skip(self, n_numbers: int) -> None:
        """Advance as if an operator had drawn about `n_numbers` numbers."""
        self.state.offset += 4 * max(1, (n_numbers + 3) // 4)

    def __reduce__(self) -> Any:
        return _restored, (self.device_index, self.state.seed, self.state.offset)


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
    def drawing_from(self, device: int, n_numbers: int) -> Iterator[None]:
        """Make operators without a generator argument draw from a device's generator, and restore the CPU's state."""
        cpu = torch.default_generator
        with self.defaults[device].drawing(n_numbers) as generator:
            saved = cpu.get_state()
            cpu.set_state(RawGenerator.get_state(generator))
            try:
                yield
            finally:
                cpu.set_state(saved)


def _mix(seed: int, offset: int) -> int:
    """Combine a seed and an offset into one number. Similar inputs give dissimilar results.

    Source:
        Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the mixing of SplitMix64.
    """
    mixed = (seed + (offset + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


def make_generator(index: int, state: State | None = None) -> DeviceGenerator:
    """Return a new generator on a virtual device, with a new state unless one is given."""
    generator = DeviceGenerator()
    generator.device_index = index
    generator.state = state or State()
    _by_address[address_of(generator)] = generator
    return generator


def _restored(index: int, seed: int, offset: int) -> DeviceGenerator:
    """Restore a generator from a pickle."""
    return make_generator(index, State(seed, offset))


def device_generator(generator: Any) -> DeviceGenerator | None:
    """Return the virtual device's generator that an operator was given, or None for a CPU generator.

    The operator receives a different Python object for the same C++ generator.
    """
    return None if generator is None else _by_address.get(address_of(generator))


def save_generators() -> Callable[[], None]:
    """Return a function that restores the current state of all generators of virtual devices."""
    states = {generator.state for generator in list(_by_address.values())}
    saved = [(state, state.seed, state.offset) for state in states]

    def restore() -> None:
        for state, seed, offset in saved:
            state.seed, state.offset = seed, offset

    return restore


class _AnyGenerator(type(RawGenerator)):  # type: ignore[misc]  # the metaclass of a C type
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, RawGenerator)


class Generator(RawGenerator, metaclass=_AnyGenerator):
    """Replacement for `torch.Generator` that can also be created for a virtual device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return a new generator on the CPU or on a virtual device."""
        if device is None or torch.device(device).type == "cpu":
            return RawGenerator()
        return make_generator(active().index_of(device))
