"""Copies between host and devices, and between devices: which stream runs one, what it orders, and who waits for it.

Source:
    aten/src/ATen/native/cuda/Copy.cu, `copy_kernel_cuda` and `copy_device_to_device`; CUDA Runtime API, "API
    synchronization behavior", section "Memcpy".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

HOST_DEVICE = -1
"""Stands for host memory where a device is expected."""


class CopyEnd(NamedTuple):
    """Target or source of a copy.

    Attributes:
        device: its index; HOST_DEVICE for host memory.
        is_pinned: it is page-locked host memory.
        is_staged: it goes through a temporary in pageable memory; see `is_staged`.
    """

    device: int
    is_pinned: bool = False
    is_staged: bool = False

    @property
    def is_direct(self) -> bool:
        """Return whether a stream reads or writes this host memory itself."""
        return self.is_pinned and not self.is_staged


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
        host_writes_target: the host writes the target when the stream is done, before the call returns.
        host_waits: the host waits for the stream before the call returns.
        overlaps_nothing: it was asked not to block, and the source is not pinned: it is staged by the host.
    """

    device: int
    other: int
    is_peer: bool = False
    uses_host_memory: bool = False
    host_reads_source: bool = False
    host_writes_target: bool = False
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
            uses_host_memory=source.is_direct,
            host_reads_source=not source.is_direct,
            host_waits=not non_blocking,
            overlaps_nothing=non_blocking and not source.is_pinned,
        )
    return CopyPlan(
        source.device,
        HOST_DEVICE,
        uses_host_memory=target.is_direct,
        host_writes_target=target.is_pinned and target.is_staged,
        host_waits=not (non_blocking and target.is_direct),
    )


class Layout(NamedTuple):
    """How a tensor lies in memory: `sizes`, `strides` in elements, and a name of its type of element."""

    sizes: Sequence[int]
    strides: Sequence[int]
    dtype: str


def is_staged(host: Layout, other: Layout) -> bool:
    """Return whether a copy between a GPU and host memory goes through a contiguous temporary in pageable memory.

    Torch copies only what is contiguous, or lies in the same way at both ends. The temporary is not pinned: a copy to
    the host has ended when the call returns, and the source of one to the GPU may be changed then.

    Args:
        host: the host's end, expanded to the size of the target where it is the source.
        other: the end on the GPU.

    Source:
        aten/src/ATen/native/cuda/Copy.cu, `copy_requires_temporaries`, `copy_kernel_cuda`; TensorIterator.cpp,
        `coalesce_dimensions`; seen on an H200.
    """
    if _is_dense(host, host):
        return False
    return host.dtype != other.dtype or not _is_dense(*_sorted(host, other))


def _sorted(one: Layout, two: Layout) -> tuple[Layout, Layout]:
    """Return both with their dimensions from the widest to the narrowest of the first."""
    order = sorted(range(len(one.sizes)), key=lambda dim: -one.strides[dim])
    first, second = (
        Layout([layout.sizes[dim] for dim in order], [layout.strides[dim] for dim in order], layout.dtype)
        for layout in (one, two)
    )
    return first, second


def _is_dense(one: Layout, two: Layout) -> bool:
    """Return whether both lie side by side, in the order of their dimensions."""
    expected = 1
    for size, stride, other in reversed(list(zip(one.sizes, one.strides, two.strides, strict=True))):
        if size != 1 and not stride == other == expected:
            return False
        expected *= size
    return True
