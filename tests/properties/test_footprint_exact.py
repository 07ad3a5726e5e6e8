"""Footprints compared with plain sets of bytes, and the algebraic laws of clocks."""

from collections import defaultdict
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck.hb.clock import ACTOR_BITS, covers, join
from syncheck.hb.footprint import Footprint, contains, dense, overlap, strided, without
from tests.properties.programs import views
from tests.properties.reference import View, bytes_of

fixed = settings(max_examples=300)


@fixed
@given(first=views(), second=views())
def test_overlap_is_exact(first, second):
    shared = bytes_of(first) & bytes_of(second)
    assert overlap(strided(*first), strided(*second)) == bool(shared)
    assert overlap(strided(*second), strided(*first)) == bool(shared)


@fixed
@given(first=views(4_000, 1_000), second=views(4_000, 1_000))
def test_overlap_of_sparse_views_agrees_with_numpy(first, second):
    assert overlap(strided(*first), strided(*second)) == np.shares_memory(_array(first), _array(second))


@fixed
@given(view=views())
def test_a_footprint_spans_its_bytes(view):
    footprint, touched = strided(*view), bytes_of(view)
    assert (footprint.start, footprint.stop) == (min(touched), max(touched) + 1)
    assert not footprint.is_dense or len(touched) == footprint.stop - footprint.start


@fixed
@given(outer=views(), inner=views())
def test_contains_has_no_false_positives(outer, inner):
    if contains(strided(*outer), strided(*inner)):
        assert bytes_of(inner) <= bytes_of(outer)


@fixed
@given(view=views(), start=st.integers(0, 24), length=st.integers(1, 24))
def test_a_dense_range_contains_exactly_the_views_inside_it(view, start, length):
    inside = bytes_of(view) <= set(range(start, start + length))
    assert contains(dense(start, start + length), strided(*view)) == inside


_RUNS = st.tuples(st.integers(0, 20), st.integers(1, 8))
_DIMS = st.lists(st.tuples(st.integers(1, 12), st.integers(2, 3)), max_size=2).map(tuple)


@fixed
@given(one=_RUNS, other=_RUNS, dims=_DIMS)
def test_what_is_left_has_all_bytes_that_were_not_taken(one, other, dims):
    footprint, taken = _made(*one, dims), _made(*other, dims)
    rest = without(footprint, taken)
    assert _bytes(footprint) - _bytes(taken) <= _bytes(rest) <= _bytes(footprint)
    if rest.run:
        assert (rest.start, rest.stop) == (min(_bytes(rest)), max(_bytes(rest)) + 1)


@fixed
@given(one=_RUNS, other=_RUNS)
def test_a_range_gives_up_its_front_and_its_back(one, other):
    footprint, taken = _made(*one, ()), _made(*other, ())
    kept = _bytes(footprint) - _bytes(taken)
    is_at_one_end = not kept or max(kept) - min(kept) + 1 == len(kept)
    assert _bytes(without(footprint, taken)) == (kept if is_at_one_end else _bytes(footprint))


def test_an_unknown_part_takes_nothing():
    part = Footprint(0, 8, 8, is_partial=True)
    assert without(dense(4, 12), part) == dense(4, 12)
    assert without(part, dense(4, 12)) == part


def _made(start: int, run: int, dims: tuple[tuple[int, int], ...]) -> Footprint:
    return Footprint(start, start + run + sum(stride * (size - 1) for stride, size in dims), run, dims)


def _bytes(footprint: Footprint) -> set[int]:
    offsets = product(*(range(0, stride * size, stride) for stride, size in footprint.dims))
    return {footprint.start + sum(steps) + byte for steps in offsets for byte in range(footprint.run)}


@fixed
@given(view=views(), where=st.integers(0, 24), size=st.integers(0, 3))
def test_a_view_without_elements_overlaps_nothing(view, where, size):
    empty = strided(where, (size, 0), (1, 1), 1)
    assert not overlap(empty, strided(*view))
    assert not overlap(strided(*view), empty)


# -- the canonical form


@fixed
@given(view=views(), data=st.data())
def test_views_of_the_same_bytes_have_the_same_footprint(view, data):
    """Permuting dimensions or adding dimensions of size 1 or stride 0 changes nothing."""
    dims = list(zip(view.sizes, view.strides, strict=True))
    dims += [(1, data.draw(st.integers(0, 30))), (data.draw(st.integers(1, 4)), 0)]
    sizes, strides = zip(*data.draw(st.permutations(dims)), strict=True)
    other = View(view.start, sizes, strides, view.item_size)
    assert bytes_of(other) == bytes_of(view)
    assert strided(*other) == strided(*view)


def test_non_overlapping_views_of_equal_bytes_have_one_footprint():
    footprints: dict[frozenset[int], set[Footprint]] = defaultdict(set)
    for view in _nested_views():
        footprints[bytes_of(view)].add(strided(*view))
    assert len(footprints) > 500
    assert [found for found in footprints.values() if len(found) > 1] == []


def _nested_views():
    """Yield views of up to three dimensions, each stepping over the whole extent of the narrower ones."""
    for n_dims, item_size in product(range(4), (1, 2)):
        for sizes in product((2, 3, 4), repeat=n_dims):
            for gaps in product((0, 1, 2), repeat=n_dims):
                strides: list[int] = []
                width = 1
                for size, gap in zip(sizes, gaps, strict=True):
                    strides.append(width + gap)
                    width += (width + gap) * (size - 1)
                yield View(0, sizes, tuple(strides), item_size)


def _array(view: View) -> np.ndarray:
    shape = (*view.sizes, view.item_size)
    strides = (*(stride * view.item_size for stride in view.strides), 1)
    return np.lib.stride_tricks.as_strided(_BUFFER[view.start :], shape, strides, writeable=False)


_BUFFER = np.zeros(4_000, np.uint8)


# -- clocks

N_ACTORS = 4
clocks = st.lists(st.integers(0, 5), min_size=N_ACTORS, max_size=N_ACTORS).map(
    lambda times: [time << ACTOR_BITS | actor if time else 0 for actor, time in enumerate(times)]
)
epochs = st.builds(lambda time, actor: time << ACTOR_BITS | actor, st.integers(1, 5), st.integers(0, N_ACTORS - 1))


def joined(first: list[int], second: list[int]) -> list[int]:
    result = list(first)
    join(result, second)
    return result


@fixed
@given(clocks, clocks, clocks)
def test_join_is_commutative_associative_and_idempotent(a, b, c):
    assert joined(a, b) == joined(b, a)
    assert joined(joined(a, b), c) == joined(a, joined(b, c))
    assert joined(a, a) == a
    assert joined(joined(a, b), b) == joined(a, b)


@fixed
@given(clocks, clocks, st.integers(0, N_ACTORS))
def test_join_pads_a_shorter_clock_with_zeros(a, b, length):
    assert joined(a, b[:length]) == joined(a, b[:length] + [0] * (N_ACTORS - length))


@fixed
@given(clocks, clocks)
def test_join_returns_whether_anything_changed_and_keeps_the_other_clock(a, b):
    before, other = list(a), list(b)
    assert join(a, b) == (a != before)
    assert b == other


@fixed
@given(clocks, clocks, epochs)
def test_covers_is_monotone(a, b, epoch):
    assert covers(joined(a, b), epoch) == (covers(a, epoch) or covers(b, epoch))


@fixed
@given(clocks, epochs, st.integers(1, 5))
def test_covering_an_epoch_covers_earlier_epochs_of_its_actor(clock, epoch, earlier):
    if covers(clock, epoch):
        time = min(earlier, epoch >> ACTOR_BITS)
        assert covers(clock, time << ACTOR_BITS | epoch & ((1 << ACTOR_BITS) - 1))
