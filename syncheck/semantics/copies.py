"""Copies between host and devices, and between devices: the stream that runs one, its ordering, and who waits for it.

Source:
    aten/src/ATen/native/cuda/Copy.cu, `copy_kernel_cuda` and `copy_device_to_device`; CUDA Runtime API, "API
    synchronization behavior", section "Memcpy".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

HOST_DEVICE = -1
"""Stands for host memory where a device index is expected."""
COPIES = frozenset({"aten::copy_", "aten::_to_copy"})
"""The operators that copy, or convert, one tensor."""


class CopyEnd(NamedTuple):
    """Target or source of a copy.

    Attributes:
        device: index of the device; HOST_DEVICE for host memory.
        is_pinned: the memory is page-locked host memory.
        is_staged: the copy goes through a temporary in pageable memory; see `is_staged`.
    """

    device: int
    is_pinned: bool = False
    is_staged: bool = False

    @property
    def is_direct(self) -> bool:
        """Return whether a stream accesses this host memory directly."""
        return self.is_pinned and not self.is_staged


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Effects of a copy between different devices.

    Attributes:
        device: the device whose current stream runs the copy.
        other: the other device; HOST_DEVICE if that is the host.
        is_peer: the stream that runs the copy waits for the current stream of the target's device beforehand, and that
            stream waits for it afterwards.
        uses_host_memory: the stream accesses the host memory, so that the host must not touch it meanwhile.
        host_reads_source: the host reads the source before the call returns.
        host_writes_target: the host writes the target once the stream is done, before the call returns.
        host_waits: the host waits for the stream before the call returns.
        overlaps_nothing: a non-blocking copy overlaps nothing, because the source is not pinned: the host stages it.
    """

    device: int
    other: int
    is_peer: bool = False
    uses_host_memory: bool = False
    host_reads_source: bool = False
    host_writes_target: bool = False
    host_waits: bool = False
    overlaps_nothing: bool = False


def is_non_blocking(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call of `copy_`, or of an operator with such arguments, does not make the host wait."""
    return bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))


def copy_plan(target: CopyEnd, source: CopyEnd, *, non_blocking: bool) -> CopyPlan:
    """Return the effects of a copy between different devices.

    A copy from pageable memory is staged, so that the host may change the source once the call returns. A copy to
    pageable memory is complete when the call returns.
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
    """The layout of a tensor in memory: `sizes`, `strides` in elements, and the name of its dtype."""

    sizes: Sequence[int]
    strides: Sequence[int]
    dtype: str


def is_staged(host: Layout, other: Layout) -> bool:
    """Return whether a copy between a GPU and host memory goes through a contiguous temporary in pageable memory.

    torch directly copies only tensors that are contiguous or have the same layout at both ends. The temporary is not
    pinned: a copy to the host is complete when the call returns, and the source of a copy to the GPU may then be
    changed.

    Args:
        host: the host's end, expanded to the size of the target if it is the source.
        other: the end on the GPU.

    Source:
        aten/src/ATen/native/cuda/Copy.cu, `copy_requires_temporaries`, `copy_kernel_cuda`; TensorIterator.cpp,
        `coalesce_dimensions`; seen on an H200.
    """
    if _is_dense(host, host):
        return False
    return host.dtype != other.dtype or not _is_dense(*_sorted(host, other))


def _sorted(one: Layout, two: Layout) -> tuple[Layout, Layout]:
    """Return both with their dimensions sorted by decreasing stride of the first."""
    order = sorted(range(len(one.sizes)), key=lambda dim: -one.strides[dim])
    first, second = (
        Layout([layout.sizes[dim] for dim in order], [layout.strides[dim] for dim in order], layout.dtype)
        for layout in (one, two)
    )
    return first, second


def _is_dense(one: Layout, two: Layout) -> bool:
    """Return whether both are contiguous, in the order of their dimensions."""
    expected = 1
    for size, stride, other in reversed(list(zip(one.sizes, one.strides, two.strides, strict=True))):
        if size != 1 and not stride == other == expected:
            return False
        expected *= size
    return True
