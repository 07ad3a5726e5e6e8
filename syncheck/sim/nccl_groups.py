"""The process groups that a program asks NCCL for. Gloo stands for it.

A group may have a backend for each kind of device, as "cpu:gloo,cuda:nccl" asks for. There, the collectives of GPU
tensors get connections of their own: another thread may exchange host tensors in the same group meanwhile, and the two
are in no order.

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
    """A group.

    Attributes:
        backend: what was asked for.
        gpus: the group that runs the collectives of GPU tensors, if it is another one; else None.
        is_bound: it was made for one GPU, so that its barriers are those of the GPU.
    """

    backend: str
    gpus: Any
    is_bound: bool


def is_mixed(backend: Any) -> bool:
    """Return whether a backend that was asked for is NCCL for GPUs and another one for the host."""
    kinds = [pair.partition(":")[0] for pair in str(backend).lower().split(",") if ":" in pair]
    return "cpu" in kinds and simulated().communication in str(backend).lower()


class NcclGroups:
    """The groups that NCCL is a backend of, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Group] = {}

    def add(self, group: Any, backend: Any, *, is_bound: bool) -> None:
        """Note a group that was made with gloo alone.

        Args:
            group: the group; all of its ranks call this.
            backend: what was asked for, as in `init_process_group`.
            is_bound: it was made with `device_id`.
        """
        gpus, name = None, simulated().communication
        if is_mixed(backend):
            gpus, name = _beside(group), str(backend).lower()
            c10d._world.pg_backend_config[group] = name
        self._by_name[str(group.group_name)] = _Group(name, gpus, is_bound)

    def backend_of(self, group: Any) -> str:
        """Return the backend that the program has asked for; "" for a group that NCCL is no backend of."""
        found = self._by_name.get(getattr(group, "group_name", ""))
        return "" if found is None else found.backend

    def is_for_gpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a barrier is one of GPUs."""
        group = self._by_name.get(group_name(args))
        if group is None:
            return False
        return group.gpus is None or group.is_bound or bool(argument(func, "device_ids", args, kwargs))

    def for_gpus(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a collective of GPU tensors, with the group that runs it."""
        return tuple(map(self._for_gpus, args))

    def _for_gpus(self, value: Any) -> Any:
        is_name = isinstance(value, str)  # as functional collectives have it
        group = self._by_name.get(value if is_name else group_name((value,)))
        if group is None or group.gpus is None:
            return value
        return str(group.gpus.group_name) if is_name else group.gpus.boxed()


def _beside(group: Any) -> Any:
    """Return a group of the same ranks with connections of its own."""
    name = f"{group.group_name} on GPUs"
    store = c10d.PrefixStore(f"{name}/", c10d._world.pg_map[group][1])
    timeout = group._get_backend(torch.device("cpu")).options._timeout
    gloo = c10d.ProcessGroupGloo(store, group.rank(), group.size(), timeout=timeout)
    made = ProcessGroup(store, group.rank(), group.size())
    made._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    made._set_default_backend(ProcessGroup.BackendType.GLOO)
    made._set_group_name(name)
    c10d._register_process_group(name, made)
    return made
