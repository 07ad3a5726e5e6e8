"""Estimated duration of an operation on a model GPU, from its bytes and floating point operations.

It does not predict the time on any real GPU. Its purpose is to give long work more weight than short work, so that a
critical path can be computed without a GPU.
"""

from collections.abc import Sequence
from math import isqrt, prod
from typing import NamedTuple

from syncheck.sanitizer.messages import View
from syncheck.semantics.copies import COPIES

FLOPS_PER_SECOND = 50e12
BYTES_PER_SECOND = 2e12
HOST_LINK_BYTES_PER_SECOND = 25e9
PEER_LINK_BYTES_PER_SECOND = 100e9
MIN_NANOSECONDS = 2_000
"""Duration of the smallest kernel or copy."""
LAUNCH_NANOSECONDS = 5_000
"""Time that the host needs to submit one operation."""

DESCRIPTION = (
    "50 Tflop/s, 2 TB/s of memory bandwidth, 25 GB/s to the host, 100 GB/s between GPUs, at least 2 us per operation, "
    "5 us of host time per launch"
)

_PRODUCTS = frozenset("mm addmm bmm baddbmm matmul linear _scaled_mm addbmm mv addmv dot vdot".split())
_CONVOLUTIONS = {"convolution": 1, "cudnn_convolution": 1, "_convolution": 1, "convolution_backward": 2}
_ATTENTION = "_scaled_dot_product_"


class Touched(NamedTuple):
    """A view that an operation reads or writes.

    Attributes:
        device: the device of the memory; -1 for host memory.
    """

    view: View
    is_write: bool
    device: int

    @property
    def n_bytes(self) -> int:
        """The number of bytes of the view."""
        return prod(self.view.sizes) * self.view.item_size


def n_bytes(touched: Sequence[Touched]) -> int:
    """Return the number of bytes that an operation moves."""
    return sum(one.n_bytes for one in touched)


def nanoseconds(operator: str, touched: Sequence[Touched], flops: int) -> int:
    """Return the estimated duration of an operation."""
    seconds = max(flops / FLOPS_PER_SECOND, n_bytes(touched) / _bandwidth(operator, touched))
    return MIN_NANOSECONDS + int(seconds * 1e9)


def _bandwidth(operator: str, touched: Sequence[Touched]) -> float:
    devices = {one.device for one in touched}
    if operator in COPIES and (len(touched) < 2 or -1 in devices):  # accesses to pageable host memory are not reported
        return HOST_LINK_BYTES_PER_SECOND
    if len(devices) > 1:
        return 2 * PEER_LINK_BYTES_PER_SECOND  # both ends are counted
    if operator.startswith(("c10d::", "_c10d_functional::")):
        return PEER_LINK_BYTES_PER_SECOND
    return BYTES_PER_SECOND


def flops(operator: str, touched: Sequence[Touched]) -> int:
    """Return the number of floating point operations of an operator, as far as its shapes determine it."""
    base = operator.partition("::")[2].partition(".")[0]
    reads = [one.view.sizes for one in touched if not one.is_write]
    writes = [one.view.sizes for one in touched if one.is_write]
    if not reads or not writes or operator in COPIES:
        return 0
    if base in _PRODUCTS:
        return _product_flops(reads[:2] if base == "linear" else reads[-2:], writes[-1])
    if base in _CONVOLUTIONS and len(reads) > 1 and reads[1][:1]:
        return 2 * prod(writes[0]) * prod(reads[1]) // max(reads[1][0], 1) * _CONVOLUTIONS[base]
    if base.startswith(_ATTENTION) and len(reads) > 1 and len(reads[1]) > 1:
        return 4 * prod(reads[0]) * reads[1][-2]
    return max(map(prod, writes))


def _product_flops(factors: list[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """Return the flops of a product. For (m, k) and (k, n) with the result (m, n), k follows from the sizes."""
    elements = prod(result)
    if not elements:
        return 0
    batch = result[0] if len(result) > 2 else 1
    inner = isqrt(prod(factors[0]) * prod(factors[-1]) // (elements * batch) or 1)
    return 2 * elements * inner
