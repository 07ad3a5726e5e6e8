"""Grouping of tensors by device for the foreach optimizers, which torch implements in C++."""

from typing import Any

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C, group_by_device_and_dtype


def install_parallel(patches: Patches) -> None:
    """Replace the C++ function behind the foreach optimizers."""
    patches.set(C, "_group_tensors_by_device_and_dtype", _group)


def _group(lists: Any, with_indices: bool = False) -> Any:
    """Group as torch does, by the virtual devices of the first list."""
    group = group_by_device_and_dtype
    devices = [None if tensor is None else tensor.device for tensor in lists[0]]
    if devices and devices.count(devices[0]) == len(devices):
        return {(devices[0], dtype): found for (_, dtype), found in group(lists, with_indices).items()}
    groups: dict[Any, Any] = {}
    for device in dict.fromkeys(devices):
        chosen = [index for index, found in enumerate(devices) if found == device]
        part = [[row[index] for index in chosen] if row else [] for row in lists]
        for (_, dtype), (tensors, positions) in group(part, with_indices).items():
            groups[device, dtype] = (tensors, [chosen[position] for position in positions])
    return groups
