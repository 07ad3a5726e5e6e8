"""A stand-in for `ProcessGroupNCCL`, whose options programs use, for builds of torch without NCCL.

Source:
    torch/csrc/distributed/c10d/init.cpp, `ProcessGroupNCCL.Options`.
"""

from datetime import timedelta
from typing import Any

import torch

from syncheck.instrument.c10d import c10d
from syncheck.instrument.patching import Patches
from syncheck.sim.device_kind import simulated


class _Config:
    """The configuration of a communicator; it takes further attributes."""

    blocking = 1
    cga_cluster_size = 4
    min_ctas = 1
    max_ctas = 32
    net_name = ""
    split_share = 0


class _Options:
    """The options of an NCCL group. They have no effect on virtual GPUs.

    Attributes:
        config: the communicator's configuration.
    """

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.backend = "nccl"
        self.is_high_priority_stream = is_high_priority_stream
        self.config = _Config()
        self.split_from: Any = None
        self.split_color = 0
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self._timeout = timedelta(minutes=10)


class _ProcessGroup:
    """The class of NCCL groups, of which programs use the options. No group is an instance of it."""

    Options = _Options
    NCCLConfig = _Config


_ProcessGroup.__name__ = _ProcessGroup.__qualname__ = "ProcessGroupNCCL"
_Options.__name__, _Options.__qualname__ = "Options", "ProcessGroupNCCL.Options"


def install_options(patches: Patches) -> None:
    """Add the class where torch has none."""
    if simulated().communication != "nccl":
        return
    for module in (torch.distributed, c10d):
        if not hasattr(module, "ProcessGroupNCCL"):
            patches.set(module, "ProcessGroupNCCL", _ProcessGroup)
