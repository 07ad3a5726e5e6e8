"""`torch.distributed.ProcessGroupNCCL`, which a build of torch without NCCL lacks: programs use its options.

Source:
    torch/csrc/distributed/c10d/init.cpp, `ProcessGroupNCCL.Options`.
"""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch

from syncheck.instrument.c10d import c10d
from syncheck.instrument.patching import Patches


class _Options:
    """The options of an NCCL group. They have no effect on virtual GPUs.

    Attributes:
        config: the communicator's configuration; it takes any attribute.
    """

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.backend = "nccl"
        self.is_high_priority_stream = is_high_priority_stream
        self.config: Any = SimpleNamespace()
        self.split_from: Any = None
        self.split_color = 0
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self._timeout = timedelta(minutes=10)


class _ProcessGroup:
    """The class of NCCL groups, of which programs use the options. No group is an instance of it."""

    Options = _Options
    NCCLConfig = SimpleNamespace


_ProcessGroup.__name__ = _ProcessGroup.__qualname__ = "ProcessGroupNCCL"
_Options.__name__, _Options.__qualname__ = "Options", "ProcessGroupNCCL.Options"


def install_options(patches: Patches) -> None:
    """Add the class where torch has none."""
    for module in (torch.distributed, c10d):
        if not hasattr(module, "ProcessGroupNCCL"):
            patches.set(module, "ProcessGroupNCCL", _ProcessGroup)
