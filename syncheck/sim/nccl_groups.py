"""Process groups for which the program requested NCCL, implemented with gloo.

A group may have a backend for each device type, as with "cpu:gloo,cuda:nccl". In such a group, collectives on GPU
tensors use separate connections, because another thread may exchange host tensors in the same group at the same time,
in no particular order.

Source:
    torch/distributed/distributed_c10d.py, `BackendConfig`, `_new_process_group_helper`, `barrier`.
"""

from typing import Any, NamedTuple

import torch

from syncheck.instrument.c10d import ProcessGroup, c10d
from syncheck.instrument.collectives import argument
from syncheck.sim.collective_arguments import group_name
from syncheck.sim.device_kind import simulated


class _Group(NamedTuple):
    """A process group.

    Attributes:
        backend: the requested backend.
        gpus: the separate group that runs collectives on GPU tensors; None if it is the same group.
        is_bound: whether it was created for one GPU, so that its barriers run on that GPU.
    """

    backend: str
    gpus: Any
    is_bound: bool


def is_mixed(backend: Any) -> bool:
    """Return whether a requested backend is NCCL for GPUs and another backend for the host."""
    kinds = [pair.partition(":")[0] for pair in str(backend).lower().split(",") if ":" in pair]
    return "cpu" in kinds and simulated().communication in str(backend).lower()


class NcclGroups:
    """Process groups with NCCL as a backend, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Group] = {}

    def add(self, group: Any, backend: Any, *, is_bound: bool) -> None:
        """Register a group that was created with gloo alone.

        Args:
            group: the group. All of its ranks call this method.
            backend: the requested backend, as passed to `init_process_group`.
            is_bound: whether it was created with `device_id`.
        """
        gpus, name = None, simulated().communication
        if is_mixed(backend):
            gpus, name = _gpu_group(group), str(backend).lower()
            c10d._world.pg_backend_config[group] = name
        self._by_name[str(group.group_name)] = _Group(name, gpus, is_bound)

    def backend_of(self, group: Any) -> str:
        """Return the backend that the program requested, or "" for a group without NCCL."""
        found = self._by_name.get(getattr(group, "group_name", ""))
        return "" if found is None else found.backend

    def is_for_gpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a barrier runs on GPUs."""
        group = self._by_name.get(group_name(args))
        if group is None:
            return False
        return group.gpus is None or group.is_bound or bool(argument(func, "device_ids", args, kwargs))

    def for_gpus(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a collective on GPU tensors, with the group that runs it."""
        return tuple(map(self._for_gpus, args))

    def _for_gpus(self, value: Any) -> Any:
        is_name = isinstance(value, str)  # functional collectives pass the group's name
        group = self._by_name.get(value if is_name else group_name((value,)))
        if group is None or group.gpus is None:
            return value
        return str(group.gpus.group_name) if is_name else group.gpus.boxed()


def _gpu_group(group: Any) -> Any:
    """Return a group of the same ranks with separate connections."""
    name = f"{group.group_name} on GPUs"
    store = c10d.PrefixStore(f"{name}/", c10d._world.pg_map[group][1])
    timeout = group._get_backend(torch.device("cpu")).options._timeout
    gloo = c10d.ProcessGroupGloo(store, group.rank(), group.size(), timeout=timeout)
    gpu_group = ProcessGroup(store, group.rank(), group.size())
    gpu_group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    gpu_group._set_default_backend(ProcessGroup.BackendType.GLOO)
    gpu_group._set_group_name(name)
    c10d._register_process_group(name, gpu_group)
    return gpu_group
