"""Computes operators on the CPU, using the virtual device's random numbers."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import torch

from syncheck.instrument.plan import Plan, tensors_in
from syncheck.sim.cuda_kernels import GPU_ONLY, KERNELS
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.memory import Memory
from syncheck.sim.random import DeviceGenerator, Random, device_generator
from syncheck.sim.widened import in_wider_type, lacks_kernel_for_type


class Compute:
    """Computes operators on the CPU."""

    def __init__(self, random: Random, memory: Memory) -> None:
        self._random = random
        self._memory = memory

    def run(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> Any:
        """Compute an operator. A random operator without a generator uses the device's default generator.

        Raises:
            NotSimulatedError: the CPU build of torch has no kernel for the operator.
            torch.OutOfMemoryError: the result does not fit into memory.
        """
        compute = KERNELS[func] if plan.name in GPU_ONLY else func
        try:
            if not plan.random:
                return compute(*args, **kwargs)
            with self._drawing(plan, args, kwargs, device):
                return compute(*args, **kwargs)
        except RuntimeError as error:
            if not is_cpu_limitation(error):
                raise
            return self.retry_in_wider_type(error, func, plan, args, kwargs, device)

    def retry_in_wider_type(
        self, error: RuntimeError, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> Any:
        """Compute an operator in a wider type after it failed only because it ran on the CPU.

        Raises:
            NotSimulatedError: the CPU build of torch has no kernel for the operator.
            torch.OutOfMemoryError: the result does not fit into memory.
        """
        if isinstance(error, NotImplementedError):
            if lacks_kernel_for_type(error):
                with suppress(NotImplementedError):
                    return in_wider_type(func, plan, args, kwargs)
            raise NotSimulatedError(
                f"the operator {plan.name}", "the CPU build of torch has no kernel for it"
            ) from error
        n_bytes = _failed_bytes(error)
        assert n_bytes is not None, "other errors are not limitations of the CPU"
        raise self._memory.fail_allocation(device, n_bytes) from error

    def _drawing(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> AbstractContextManager[Any]:
        """Return a context in which a random operator draws from its generator."""
        n_numbers = _count_numbers((*args, *kwargs.values()))
        if not plan.has_generator:
            return self._random.drawing_from(device, n_numbers)
        generator = device_generator(generator_in(args, kwargs))
        return nullcontext() if generator is None else generator.drawing(n_numbers)

    def check_captured_generator(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], registered: list[DeviceGenerator]
    ) -> None:
        """Raise torch's error for a generator that is not registered with a capture.

        Source:
            aten/src/ATen/cuda/CUDAGeneratorImpl.cpp, `CUDAGeneratorState::increase`.
        """
        generator = device_generator(generator_in(args, kwargs)) if plan.random and plan.has_generator else None
        if generator is not None and not any(
            generator.state is one.state for one in (*self._random.defaults, *registered)
        ):
            raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")

    def drawing_at_replay(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> Callable[[], AbstractContextManager[None]]:
        """Return a factory of contexts in which an operator draws from its generator's current state object."""
        generator = self._drawn_from(plan, args, kwargs, device)
        if generator is None:
            return nullcontext
        state = generator.state
        return lambda: generator.using(state)

    def drawing_deferred(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> Callable[[], AbstractContextManager[None]]:
        """Return a factory of contexts in which an operator draws the numbers it would draw now; skip these numbers."""
        generator = self._drawn_from(plan, args, kwargs, device)
        if generator is None:
            return nullcontext
        state = replace(generator.state)
        generator.skip(_count_numbers((*args, *kwargs.values())))
        return lambda: generator.using(state)

    def _drawn_from(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> DeviceGenerator | None:
        """Return the generator that an operator draws from, or None if it draws no numbers or uses a CPU generator."""
        if not plan.random:
            return None
        generator = generator_in(args, kwargs) if plan.has_generator else None
        return self._random.generator(device) if generator is None else device_generator(generator)

    def with_generator(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of an operator, adding the device's generator if it accepts one and has none."""
        if plan.random and plan.has_generator and generator_in(args, kwargs) is None:
            kwargs = {**kwargs, "generator": self._random.generator(device)}
        return args, kwargs


def is_cpu_limitation(error: RuntimeError) -> bool:
    """Return whether an operator failed only because it ran on the CPU."""
    return isinstance(error, NotImplementedError) or _failed_bytes(error) is not None


def _failed_bytes(error: RuntimeError) -> int | None:
    """Return the size of the allocation that made an operator fail, or None if it failed for another reason."""
    size = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", str(error))
    return None if size is None else int(size[1])


def generator_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the generator passed to an operator, or None."""
    named = kwargs.get("generator")
    return named if named is not None else next((v for v in args if isinstance(v, torch.Generator)), None)


def _count_numbers(values: tuple[Any, ...]) -> int:
    """Estimate how many random numbers an operator draws: one for each element that it reads or creates."""
    sizes = [tensor.numel() for value in values for tensor in tensors_in(value)]
    sizes += [torch.Size(value).numel() for value in values if _is_shape(value)]
    return max(sizes, default=1)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(type(entry) is int for entry in value)
