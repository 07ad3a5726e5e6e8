"""The bytes that a view covers. The rows of `MATRIX` are 8 elements of 4 bytes."""

import pytest

from syncheck.hb.footprint import certainly_overlap, contains, dense, overlap, strided

WHOLE = strided(0, (4, 8), (8, 1), 4)
LEFT = strided(0, (4, 4), (8, 1), 4)
RIGHT = strided(16, (4, 4), (8, 1), 4)
ROWS = strided(0, (4, 8), (8, 1), 4, is_partial=True)


def test_a_contiguous_tensor_is_a_dense_range():
    assert dense(0, 128) == WHOLE


def test_a_transposed_tensor_has_the_same_bytes():
    assert strided(0, (8, 4), (1, 8), 4) == WHOLE


def test_column_halves_share_no_byte_although_their_ranges_overlap():
    assert LEFT.stop > RIGHT.start
    assert not overlap(LEFT, RIGHT)


def test_a_column_half_overlaps_the_whole():
    assert overlap(LEFT, WHOLE)
    assert overlap(WHOLE, RIGHT)


def test_a_column_overlaps_the_half_it_lies_in():
    column = strided(20, (4,), (8,), 4)
    assert overlap(column, RIGHT)
    assert not overlap(column, LEFT)


def test_even_and_odd_elements_share_no_byte():
    assert not overlap(strided(0, (16,), (2,), 4), strided(4, (16,), (2,), 4))


def test_real_parts_overlap_the_complex_elements():
    assert overlap(strided(0, (16,), (2,), 4), strided(0, (16,), (1,), 8))


def test_adjacent_ranges_do_not_overlap():
    assert not overlap(dense(0, 64), dense(64, 128))


def test_a_single_common_byte_is_an_overlap():
    assert overlap(dense(0, 65), dense(64, 128))


def test_an_expanded_tensor_covers_only_its_source():
    assert strided(8, (100, 4), (0, 1), 4) == dense(8, 24)


def test_sliding_windows_cover_the_whole_range():
    assert strided(0, (6, 3), (1, 1), 4) == dense(0, 32)


def test_a_scalar_covers_one_element():
    assert strided(12, (), (), 4) == dense(12, 16)


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (0, 3)])
def test_an_empty_view_covers_no_bytes(sizes):
    empty = strided(64, sizes, (1,) * len(sizes), 4)
    assert empty.start == empty.stop
    assert not overlap(empty, WHOLE)
    assert not overlap(WHOLE, empty)


def test_a_dense_range_contains_views_inside_it():
    assert contains(WHOLE, LEFT)
    assert contains(WHOLE, WHOLE)
    assert not contains(dense(0, 127), WHOLE)


def test_a_strided_view_contains_itself_but_no_range():
    assert contains(LEFT, LEFT)
    assert not contains(LEFT, WHOLE)


def test_halves_of_a_huge_matrix_are_distinguished_quickly():
    rows, columns = 1_000_000, 4_096
    left = strided(0, (rows, columns // 2), (columns, 1), 2)
    right = strided(columns, (rows, columns // 2), (columns, 1), 2)
    assert not overlap(left, right)
    assert overlap(left, strided(0, (rows, columns), (columns, 1), 2))


def test_blocks_of_a_three_dimensional_tensor_are_distinguished():
    def block(start: int):
        return strided(start, (8, 8, 8), (1024, 32, 1), 4)

    assert not overlap(block(0), block(8 * 4))
    assert not overlap(block(0), block(8 * 32 * 4))
    assert overlap(block(0), block(7 * 32 * 4))


@pytest.mark.parametrize(
    ("other", "is_certain"), [(WHOLE, True), (dense(0, 256), True), (LEFT, False), (dense(0, 32), False), (ROWS, False)]
)
def test_partial_rows_certainly_overlap_only_the_whole_tensor(other, is_certain):
    assert overlap(ROWS, other)
    assert certainly_overlap(ROWS, other) == certainly_overlap(other, ROWS) == is_certain


def test_partial_rows_contain_no_other_view():
    assert contains(WHOLE, ROWS)
    assert not contains(ROWS, ROWS)
    assert not contains(ROWS, dense(0, 4))
