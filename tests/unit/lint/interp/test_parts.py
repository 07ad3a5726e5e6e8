"""Parts of tensors as byte ranges."""

import pytest

from syncheck.hb.footprint import strided
from syncheck.hb.ids import AllocationId
from syncheck.lint.interp import parts
from syncheck.lint.interp.parts import N_BYTES, Parts
from syncheck.lint.interp.values import DERIVED, MOVED, UNKNOWN, WHOLE, Block, Constant, Sequence, Tensor, Value


class Session:
    """Assigns a number to each view.

    Attributes:
        spans: the bytes of each view, [first, stop).
    """

    def __init__(self):
        self.spans = []

    def view(self, start, shape, strides, item, dtype):
        (length,) = shape
        assert (strides, item) == ((1,), 1)
        self.spans.append((start, start + length))
        return len(self.spans) - 1


@pytest.fixture
def made():
    return Parts(Session())


def span(made, part, *, is_write=True):
    return made._session.spans[made.view(part, is_write=is_write)]


def overlap(one, other):
    return one[0] < other[1] and other[0] < one[1]


def test_a_whole_tensor_covers_all_of_its_bytes(made):
    assert span(made, WHOLE) == span(made, WHOLE, is_write=False) == (0, N_BYTES)


def test_rows_are_adjacent(made):
    one, two, both = span(made, (0, 1)), span(made, (1, 2)), span(made, (0, 2))
    assert not overlap(one, two)
    assert (both[0], both[1]) == (one[0], two[1])
    assert overlap(one, span(made, WHOLE))


def test_distant_rows_do_not_overlap_unknown_parts(made):
    far = span(made, (10**6, 10**6 + 5))
    assert far[1] <= span(made, None, is_write=False)[0]
    assert overlap(span(made, (5, 10**6)), span(made, (1000, 1001)))


def test_each_part_has_one_view(made):
    assert made.view((3, 4), is_write=True) == made.view((3, 4), is_write=False)
    assert made.view(None, is_write=False) == made.view(None, is_write=False)


def test_written_unknown_parts_are_distinct(made):
    spans = [span(made, None) for _ in range(10)]
    assert not any(overlap(one, other) for one in spans for other in spans if one is not other)


def test_a_read_unknown_part_does_not_overlap_a_written_one(made):
    assert not overlap(span(made, None, is_write=False), span(made, None))


@pytest.mark.parametrize("is_write", [True, False])
def test_every_part_is_inside_the_whole_tensor(made, is_write):
    for part in (None, (0, 1), (2000, 2001), WHOLE):
        first, stop = span(made, part, is_write=is_write)
        assert 0 <= first <= stop <= N_BYTES


def test_bytes_of_unknown_parts_are_reused_after_many_parts(made):
    views = [made.view(None, is_write=True) for _ in range(2 * parts._MAX_PARTS)]
    assert len(set(views)) == parts._MAX_PARTS
    assert max(stop for _, stop in made._session.spans) <= N_BYTES


def test_a_view_is_accepted_by_a_session():
    class Exact(Session):
        def view(self, start, shape, strides, item, dtype):
            strided(start, shape, strides, item)
            return super().view(start, shape, strides, item, dtype)

    assert span(Parts(Exact()), (1, 3)) == (1 << 16, 3 << 16)


def test_the_same_unknown_index_selects_the_same_part(made):
    first, other = Value(), Value()
    assert made.at(first) == made.at(first) != made.at(other)
    assert span(made, made.at(first)) == span(made, made.at(first), is_write=False)
    assert not overlap(span(made, made.at(first)), span(made, made.at(other)))
    assert not overlap(span(made, made.at(first)), span(made, None))
    assert overlap(span(made, made.at(first)), span(made, WHOLE))


@pytest.mark.parametrize("index", [UNKNOWN, DERIVED, MOVED, Constant(3)])
def test_an_index_without_identity_selects_no_part_of_its_own(made, index):
    assert made.at(index) is None


def test_items_of_a_part_are_distinct_and_the_same_at_each_use(made):
    first, second = (made.at(Constant(index), (0, 1)) for index in (0, 1))
    assert first == made.at(Constant(0), (0, 1)) != made.at(Constant(0), (1, 2))
    assert not overlap(span(made, first), span(made, second))
    assert made.at(Constant(0), None) is None


def test_an_index_made_of_numbers_selects_rows_of_its_own(made):
    numbers, computed = (Tensor(Block(AllocationId(i), 0, is_pinned=False, died=lambda _: None)) for i in (1, 2))
    made.note_made(numbers.block.ident, [Sequence([Constant(0), Constant(1)])])
    made.note_made(computed.block.ident, [Sequence([Constant(0), UNKNOWN])])
    assert made.rows(numbers, WHOLE) == made.rows(numbers, WHOLE) != WHOLE
    assert made.rows(computed, WHOLE) == WHOLE
    assert made.rows(UNKNOWN, WHOLE) == WHOLE
    assert made.rows(None, (0, 1)) == (0, 1)
