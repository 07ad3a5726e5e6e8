"""Footprints: the bytes of an allocation that a strided view touches, and whether two views overlap."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

# After this many steps an undecided overlap counts as one; only views with many irregular strides get this far.
_MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of one view inside one allocation, in a canonical form.

    Equal bytes have equal footprints, for views that do not overlap themselves.

    Attributes:
        start: first byte.
        stop: one past the last byte; `stop == start` touches nothing.
        run: length in bytes of each contiguous run.
        dims: (stride in bytes, number of runs) per dimension, largest stride first; empty if contiguous.
        is_partial: only an unknown subset of these bytes is touched.
    """

    start: int
    stop: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()
    is_partial: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether every byte of `[start, stop)` is touched."""
        return not self.dims


def dense(start: int, stop: int) -> Footprint:
    """Return the footprint of the half-open byte range `[start, stop)`."""
    return Footprint(start, stop, stop - start)


def strided(
    start: int, sizes: tuple[int, ...], strides: tuple[int, ...], item_size: int, *, is_partial: bool = False
) -> Footprint:
    """Return the footprint of a strided view.

    Args:
        start: byte offset of the first element in the allocation.
        sizes: number of elements in each dimension.
        strides: stride of each dimension in elements, >= 0 as torch guarantees; same length as `sizes`.
        item_size: size of one element in bytes.
        is_partial: only an unknown subset of the view is touched.
    """
    if 0 in sizes:
        return Footprint(start, start, 0)
    pairs = sorted(
        (stride * item_size, size) for size, stride in zip(sizes, strides, strict=True) if size > 1 and stride
    )
    run = item_size
    dims: list[tuple[int, int]] = []
    for stride, size in pairs:  # smallest stride first
        if not dims and stride <= run:  # neighbors touch or overlap, which makes a longer run
            run += stride * (size - 1)
        elif dims and stride == dims[-1][0] * dims[-1][1]:
            dims[-1] = (dims[-1][0], dims[-1][1] * size)
        else:
            dims.append((stride, size))
    stop = start + run + sum(stride * (size - 1) for stride, size in dims)
    return Footprint(start, stop, run, tuple(reversed(dims)), is_partial)


def contains(outer: Footprint, inner: Footprint) -> bool:
    """Return whether `outer` is certain to touch every byte that `inner` touches."""
    if outer.is_partial:
        return False
    if outer == inner:
        return True
    return outer.is_dense and outer.start <= inner.start and inner.stop <= outer.stop


def without(footprint: Footprint, taken: Footprint) -> Footprint:
    """Return a footprint without the bytes of another: all of them, or those at the front or the back of each run.

    Returns `footprint` itself if `taken` is not certain to touch any of these, or has other dimensions.
    """
    if contains(taken, footprint):
        return Footprint(footprint.start, footprint.start, 0)
    if footprint.dims != taken.dims or footprint.is_partial or taken.is_partial:
        return footprint
    start, end = footprint.start, footprint.start + footprint.run
    taken_end = taken.start + taken.run
    if taken.start <= start < taken_end < end:
        return Footprint(taken_end, footprint.stop, end - taken_end, footprint.dims)
    if start < taken.start < end <= taken_end:
        return Footprint(start, footprint.stop - (end - taken.start), taken.start - start, footprint.dims)
    return footprint


def certainly_overlap(first: Footprint, second: Footprint) -> bool:
    """Return whether two overlapping footprints share a byte regardless of which bytes a partial one touches."""
    if first.is_partial:
        return contains(second, replace(first, is_partial=False))
    return not second.is_partial or contains(first, replace(second, is_partial=False))


def overlap(first: Footprint, second: Footprint) -> bool:
    """Return whether two footprints of one allocation share a byte; exact up to a bound on the work.

    A partial footprint counts as touching all of its bytes.

    Two positions coincide when a sum of strides times bounded counts falls into a window as wide as both runs. This
    is a bounded linear Diophantine problem, searched largest stride first and pruned by the common divisor.

    Source:
        The same formulation as numpy's `solve_may_share_memory`, numpy/_core/src/common/mem_overlap.c.
    """
    if first.start >= second.stop or second.start >= first.stop or not (first.run and second.run):
        return False
    if first.is_dense and second.is_dense:
        return True
    return _do_overlap(first, second)


@lru_cache(maxsize=65_536)
def _do_overlap(first: Footprint, second: Footprint) -> bool:
    """Return whether two footprints share a byte, of which at least one is not dense."""
    # first.start + sum(s*x) + u == second.start + sum(t*y) + v, with y counted backwards to make all terms positive
    slack = first.run - 1 + second.run - 1
    target = second.start - first.start + second.run - 1
    target += sum(stride * (size - 1) for stride, size in second.dims)
    counts: dict[int, int] = {}
    for stride, size in first.dims + second.dims:
        counts[stride] = counts.get(stride, 0) + size - 1
    terms = sorted(counts.items(), reverse=True)
    return _reachable(terms, slack, target)


def _reachable(terms: list[tuple[int, int]], slack: int, target: int) -> bool:
    """Return whether some sum of `stride * count` lies in `[target - slack, target]`."""
    divisors = [0] * (len(terms) + 1)
    reach = [0] * (len(terms) + 1)
    for index in range(len(terms) - 1, -1, -1):
        stride, count = terms[index]
        divisors[index] = gcd(stride, divisors[index + 1])
        reach[index] = reach[index + 1] + stride * count
    steps = 0
    stack = [(0, target)]
    while stack:
        index, rest = stack.pop()
        if rest < 0 or rest - slack > reach[index]:
            continue
        if index == len(terms) or rest <= slack:
            return True
        if rest % divisors[index] > slack:
            continue  # no multiple of the common divisor lies in the window
        stride, count = terms[index]
        low = max(0, -(-(rest - slack - reach[index + 1]) // stride))
        high = min(count, rest // stride)
        steps += max(0, high - low + 1)
        if steps > _MAX_STEPS:
            return True
        stack.extend((index + 1, rest - stride * times) for times in range(low, high + 1))
    return False
