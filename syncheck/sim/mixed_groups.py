"""Process groups with a backend for each kind of device, as "cpu:gloo,cuda:nccl" asks for.

Gloo stands for both backends. The collectives of GPU tensors get connections of their own: another thread may exchange
host tensors in the same group meanwhile, and the two are in no order.

Source:
    torch/distributed/distributed_c10d.py, `BackendConfig`, `_new_process_group_helper`, `barrier`.
"""

from typing import Any, NamedTuple

import torch

from syncheck.instrument.c10d import ProcessGroup, c10d
from syncheck.sim.device_kind import simulated


class MixedGroup(NamedTuple):
    """A group with two backends.

    Attributes:
        backend: what was asked for.
        gpus: the group that runs the collectives of GPU tensors.
        is_bound: it was made for one GPU, so that its barriers are those of the GPU.
    """

    backend: str
    gpus: Any
    is_bound: bool


def is_mixed(backend: Any) -> bool:
    """Return whether a backend that was asked for is NCCL for GPUs and another one for the host."""
    kinds = [pair.partition(":")[0] for pair in str(backend).lower().split(",") if ":" in pair]
    return "cpu" in kinds and simulated().communication in str(backend).lower()


class MixedGroups:
    """The groups with a backend for each kind of device, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, MixedGroup] = {}

    def add(self, group: Any, backend: str, *, is_bound: bool) -> None:
        """Note a group that was made with gloo alone.

        Args:
            group: the group; all of its ranks call this.
            backend: what was asked for, as in `init_process_group`.
            is_bound: it was made with `device_id`.
        """
        name = f"{group.group_name} on GPUs"
        store = c10d.PrefixStore(f"{name}/", c10d._world.pg_map[group][1])
        timeout = group._get_backend(torch.device("cpu")).options._timeout
        gloo = c10d.ProcessGroupGloo(store, group.rank(), group.size(), timeout=timeout)
        made = ProcessGroup(store, group.rank(), group.size())
        made._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
        made._set_default_backend(ProcessGroup.BackendType.GLOO)
        made._set_group_name(name)
        c10d._register_process_group(name, made)
        c10d._world.pg_backend_config[group] = backend
        self._by_name[str(group.group_name)] = MixedGroup(backend, made, is_bound)

    def get(self, name: str) -> MixedGroup | None:
        """Return a group by its name; None if it has one backend."""
        return self._by_name.get(name)

    def for_gpus(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a collective of GPU tensors, with the group that runs it."""
        return tuple(map(self._for_gpus, args)) if self._by_name else args

    def _for_gpus(self, value: Any) -> Any:
        if isinstance(value, str):  # of a functional collective
            mixed = self._by_name.get(value)
            return value if mixed is None else str(mixed.gpus.group_name)
        if isinstance(value, torch.ScriptObject):
            try:
                mixed = self._by_name.get(str(ProcessGroup.unbox(value).group_name))
            except (TypeError, RuntimeError):  # not a process group
                return value
            return value if mixed is None else mixed.gpus.boxed()
        return value
