"""Facts about torch tensors."""

import pytest
import torch

from syncheck.instrument.tensor_facts import TorchFacts, extent


def test_tensor_placement_comes_from_the_backend():
    x = torch.ones(1)
    facts = TorchFacts(lambda tensor: tensor is x)
    assert facts.is_on_gpu(x)
    assert not facts.is_on_gpu(torch.ones(1))


@pytest.mark.parametrize(
    ("dtype", "is_mask"), [(torch.bool, True), (torch.uint8, True), (torch.int64, False), (torch.float32, False)]
)
def test_boolean_and_byte_tensors_are_masks(dtype, is_mask):
    assert TorchFacts(bool).is_mask(torch.ones(2, dtype=dtype)) is is_mask


def test_a_single_element_is_a_number():
    facts = TorchFacts(bool)
    assert facts.is_number(torch.ones(()))
    assert facts.is_number(torch.ones(1, 1))
    assert not facts.is_number(torch.ones(2))
    assert not facts.is_number(torch.ones(0))
    assert facts.is_tensor(torch.ones(1))
    assert not facts.is_tensor(1.0)


@pytest.mark.parametrize(
    ("view", "bytes_"),
    [(lambda x: x, (0, 64)), (lambda x: x[1], (16, 32)), (lambda x: x[:, 1], (4, 56)), (lambda x: x[2:, 2:], (40, 64))],
    ids=["whole", "row", "column", "corner"],
)
def test_extent_covers_a_view_within_its_storage(view, bytes_):
    assert extent(view(torch.ones(4, 4))) == bytes_
