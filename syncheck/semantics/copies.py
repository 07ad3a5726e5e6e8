"""Copies between host and devices, and between devices: which stream runs one, what it orders, and who waits for it.

Source:
    aten/src/ATen/native/cuda/Copy.cu, `copy_kernel_cuda` and `copy_device_to_device`; CUDA Runtime API, "API
    synchronization behavior", section "Memcpy".
"""

from dataclasses import dataclass
from typing import NamedTuple

HOST_DEVICE = -1
"""Stands for host memory where a device is expected."""


class CopyEnd(NamedTuple):
    """Target or source of a copy.

    Attributes:
        device: its index; HOST_DEVICE for host memory.
        is_pinned: it is page-locked host memory.
    """

    device: int
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What a copy between different devices does.

    Attributes:
        device: the device whose current stream runs it.
        other: the other device; HOST_DEVICE if that is the host.
        is_peer: the stream that runs it waits for the current stream of the target's device before, and that one for it
            afterwards.
        uses_host_memory: the stream reads or writes the host memory, so that the host must not touch it meanwhile.
        host_reads_source: the host reads the source before the call returns.
        host_waits: the host waits for the stream before the call returns.
        overlaps_nothing: it was asked not to block, and the source is not pinned: it is staged by the host.
    """

    device: int
    other: int
    is_peer: bool = False
    uses_host_memory: bool = False
    host_reads_source: bool = False
    host_waits: bool = False
    overlaps_nothing: bool = False


def copy_plan(target: CopyEnd, source: CopyEnd, *, non_blocking: bool) -> CopyPlan:
    """Return what a copy between different devices does.

    A copy from pageable memory is staged: the host may change the source when the call returns. One to pageable memory
    has ended when it returns.
    """
    if HOST_DEVICE not in {target.device, source.device}:
        return CopyPlan(source.device, target.device, is_peer=True)
    if source.device == HOST_DEVICE:
        return CopyPlan(
            target.device,
            HOST_DEVICE,
            uses_host_memory=source.is_pinned,
            host_reads_source=not source.is_pinned,
            host_waits=not non_blocking,
            overlaps_nothing=non_blocking and not source.is_pinned,
        )
    return CopyPlan(
        source.device,
        HOST_DEVICE,
        uses_host_memory=target.is_pinned,
        host_waits=not (non_blocking and target.is_pinned),
    )
