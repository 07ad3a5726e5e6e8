"""The rows that an index selects, compared with the actual changes of the operator."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from syncheck.sim.rows import blocks_of, selection_of


def rows(base, tensor, *arguments):
    """Return the blocks of its first tensor that an operator accesses."""
    return blocks_of(tensor, selection_of(base, tensor, (tensor, *arguments), {}))


def touched(tensor, blocks):
    """Return which elements of a tensor are in the given blocks."""
    marked = torch.zeros_like(tensor, dtype=torch.bool)
    for block in blocks:
        marked.as_strided(block.sizes, block.strides, block.start).fill_(True)
    return marked


@given(st.lists(st.integers(-12, 11), min_size=1, max_size=20), st.sampled_from([0, 1]))
def test_rows_along_one_dimension_are_exact(positions, dim):
    tensor, index = torch.zeros(12, 12), torch.tensor(positions) % 12
    changed = tensor.index_fill(dim, index, 1.0).bool()
    blocks = rows("index_fill_", tensor, dim, torch.tensor(positions), 1.0)
    assert torch.equal(touched(tensor, blocks), changed)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-4, 3)), min_size=1, max_size=12))
def test_elements_of_several_indices_are_exact(pairs):
    tensor = torch.zeros(6, 4, 3)
    first, second = torch.tensor(pairs).unbind(1)
    changed = tensor.index_put((first, second), torch.tensor(1.0)).bool()
    assert torch.equal(touched(tensor, rows("index_put_", tensor, [first, second])), changed)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12))
def test_elements_of_separated_indices_are_exact(pairs):
    tensor = torch.zeros(6, 2, 4)
    first, second = torch.tensor(pairs).unbind(1)
    changed = torch.zeros(6, 4, 2).index_put((first, second), torch.tensor(1.0)).transpose(1, 2).bool()
    assert torch.equal(touched(tensor, rows("index_put_", tensor, [first, None, second])), changed)


@given(st.lists(st.integers(0, 299), min_size=1, max_size=200, unique=True))
def test_many_rows_are_never_underestimated(positions):
    tensor, index = torch.zeros(300, 2), torch.tensor(positions)
    changed = tensor.index_fill(0, index, 1.0).bool()
    assert touched(tensor, rows("index_fill_", tensor, 0, index, 1.0))[changed].all()


def test_an_elementwise_index_narrows_the_other_dimensions():
    tensor = torch.zeros(4, 6)
    index = torch.tensor([[0, 0], [3, 3]])
    blocks = rows("scatter_", tensor, 0, index, 1.0)
    assert torch.equal(touched(tensor, blocks), tensor.scatter(0, index, 1.0).bool())


@pytest.mark.parametrize(
    "arguments", [(torch.zeros(()), 0, torch.tensor(0)), (torch.eye(3).to_sparse(), 0, torch.tensor(0))]
)
def test_a_tensor_without_rows_is_accessed_as_a_whole(arguments):
    assert selection_of("index_select", arguments[0], arguments, {}) is None


def test_an_empty_index_accesses_nothing():
    assert rows("index_select", torch.zeros(3, 3), 0, torch.tensor([], dtype=torch.int64)) == []


def test_long_indices_are_not_analyzed():
    assert rows("index_select", torch.zeros(3, 3), 0, torch.zeros(1 << 15, dtype=torch.int64)) is None


def test_merged_blocks_are_partial():
    tensor, index = torch.zeros(1 << 10, 2), torch.arange(0, 1 << 10, 4)
    found = blocks_of(tensor, selection_of("index_select", tensor, (tensor, 0, index), {}))
    assert any(block.is_partial for block in found)
    few = blocks_of(tensor, selection_of("index_select", tensor, (tensor, 0, index[:8]), {}))
    assert not any(block.is_partial for block in few)


def test_an_index_per_element_selects_single_elements():
    tensor, index = torch.zeros(2, 4), torch.tensor([[0, 2], [1, 3]])
    found = blocks_of(tensor, selection_of("gather", tensor, (tensor, 1, index), {}))
    assert sorted((block.start, block.sizes) for block in found) == [(0, (1,)), (2, (1,)), (5, (1,)), (7, (1,))]
