"""The cell index finds exactly the ranges that overlap a range, and the engine compares no others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck.hb import cells, memory
from syncheck.hb.engine import Engine
from syncheck.hb.footprint import dense
from syncheck.hb.intervals import Intervals

_STARTS = st.one_of(st.integers(0, 80), st.integers(0, 1 << 40))
_LENGTHS = st.one_of(st.integers(0, 20), st.integers(0, 1 << 38))


@settings(max_examples=300)
@given(ranges=st.lists(st.tuples(_STARTS, _LENGTHS), max_size=60), wanted=st.tuples(_STARTS, st.integers(1, 1 << 38)))
def test_exactly_the_overlapping_ranges_are_found_in_order(ranges, wanted):
    index = Intervals()
    for number, (start, length) in enumerate(ranges):
        index.add(start, start + length, number)
    for begin, length in [wanted, *((start, max(length, 1)) for start, length in ranges)]:
        end = begin + length
        overlapping = [n for n, (start, size) in enumerate(ranges) if start < end and begin < start + size]
        assert index.overlapping(begin, end) == overlapping


@settings(max_examples=300)
@given(ranges=st.lists(st.tuples(_STARTS, _LENGTHS), max_size=60), data=st.data())
def test_removed_ranges_are_not_found(ranges, data):
    index = Intervals()
    for number, (start, length) in enumerate(ranges):
        index.add(start, start + length, number)
    removed = data.draw(st.sets(st.sampled_from(range(len(ranges))))) if ranges else set()
    for number in removed:
        start, length = ranges[number]
        index.remove(start, start + length, number)
    kept = [n for n, (start, length) in enumerate(ranges) if n not in removed and length]
    assert [n for n in index.overlapping(0, 1 << 60) if ranges[n][1]] == kept


@pytest.mark.parametrize("has_whole", [True, False])
@pytest.mark.parametrize("is_write", [True, False])
def test_windows_that_move_over_a_buffer_are_compared_only_with_their_neighbors(monkeypatch, is_write, has_whole):
    compared = []
    for module, name in ((cells, "overlap"), (memory, "overlap"), (cells, "contains"), (memory, "contains")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *pair, real=real: compared.append(1) or real(*pair))
    windows = 1000
    engine = Engine()
    streams = [engine.add_stream(0), engine.add_stream(0)]
    engine.allocate(1, streams[0], 2 * windows, 0, 0)
    if has_whole:
        engine.launch(streams[0], [(1, engine.add_view(dense(0, 2 * windows)), True)], 7)
    engine.record(1, streams[0])
    engine.wait(1, streams[1])
    for _ in range(3):
        for start in range(windows):
            view = engine.add_view(dense(start, start + windows))
            assert engine.launch(streams[1], [(1, view, is_write)], 10 + start) == []
    assert len(compared) < 300 * windows
    first_byte = engine.add_view(dense(0, 1))
    assert {race.prior.label for race in engine.launch(streams[0], [(1, first_byte, True)], 5)} == {10}


def test_rows_of_one_buffer_are_compared_only_with_their_neighbors(monkeypatch):
    compared = []
    real = cells.overlap
    monkeypatch.setattr(cells, "overlap", lambda one, other: compared.append(1) or real(one, other))
    rows = 3000
    engine = Engine()
    streams = [engine.add_stream(0, is_legacy=True), engine.add_stream(0)]
    engine.allocate(1, streams[0], rows * 64, 0, 0)
    for row in range(rows):
        view = engine.add_view(dense(row * 64, row * 64 + 64))
        for stream in streams:
            engine.launch(stream, [(1, view, False)], row)
    assert len(compared) < 100 * rows
    whole = engine.add_view(dense(0, rows * 64))
    engine.record(1, streams[0])
    engine.wait(1, streams[1])
    assert engine.launch(streams[1], [(1, whole, True)], rows) == []
    assert len({race.prior.label for race in engine.launch(streams[0], [(1, whole, False)], rows)}) == 1
