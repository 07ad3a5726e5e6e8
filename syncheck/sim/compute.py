"""Computes operators on the CPU, with random numbers of the virtual device."""

import re
from typing import Any

from syncheck.instrument.plan import Plan
from syncheck.sim.errors import NotSimulatedError, out_of_memory
from syncheck.sim.random import Random


class Compute:
    """Computes operators on the CPU."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def run(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> Any:
        """Compute an operator; a random one without a generator draws from the device's own.

        Raises:
            NotSimulatedError: the CPU build of torch has no kernel for it.
            torch.OutOfMemoryError: the result does not fit into memory.
        """
        try:
            if plan.random and not plan.has_generator:
                with self._random.drawing_from(device):
                    return func(*args, **kwargs)
            return func(*args, **kwargs)
        except NotImplementedError as error:
            raise NotSimulatedError(
                f"the operator {plan.name}", "the CPU build of torch has no kernel for it"
            ) from error
        except RuntimeError as error:
            size = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", str(error))
            if size is None:
                raise
            raise out_of_memory(device, int(size[1])) from error

    def with_generator(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of an operator, with the device's generator if it takes one and has none."""
        if plan.random and plan.has_generator and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self._random.generator(device)}
        return args, kwargs
