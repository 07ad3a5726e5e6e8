"""Grouping of tensors by device for the foreach optimizers, which torch implements in C++."""

from typing import Any

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, group_by_device_and_dtype


class ParallelShim:
    """Replaces the C++ function behind the foreach optimizers."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def install(self) -> None:
        """Install the replacement."""
        group = group_by_device_and_dtype
        self._patches.set(
            C,
            "_group_tensors_by_device_and_dtype",
            lambda lists, with_indices=False: self._group(group, lists, with_indices=with_indices),
        )

    def _group(self, original: Any, lists: Any, *, with_indices: bool) -> Any:
        """Group as torch does, by the virtual devices of the first list."""
        devices = [None if tensor is None else tensor.device for tensor in lists[0]]
        groups: dict[Any, Any] = {}
        if devices and devices.count(devices[0]) == len(devices):
            return {(devices[0], dtype): group for (_, dtype), group in original(lists, with_indices).items()}
        for device in dict.fromkeys(devices):
            chosen = [index for index, found in enumerate(devices) if found == device]
            part = [[row[index] for index in chosen] if row else [] for row in lists]
            for (_, dtype), (tensors, positions) in original(part, with_indices).items():
                groups[device, dtype] = (tensors, [chosen[position] for position in positions])
        return groups
