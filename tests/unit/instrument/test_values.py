"""Values of tensors."""

import random

import torch

from syncheck.instrument.values import seed_generators, values_of


def test_equal_tensors_have_equal_values_regardless_of_layout():
    matrix = torch.arange(6.0).view(2, 3)
    assert values_of(matrix.t()) == values_of(matrix.t().contiguous())
    assert values_of(matrix) != values_of(matrix.t())


def test_values_beyond_those_shown_affect_the_checksum():
    one, other = torch.zeros(10_000), torch.zeros(10_000)
    other[-1] = 1
    assert values_of(one).shown == values_of(other).shown
    assert values_of(one).checksum != values_of(other).checksum


def test_an_empty_tensor_has_no_values():
    assert values_of(torch.empty(0)).count == 0


def test_begin_alike_makes_random_numbers_reproducible():
    drawn = []
    for _ in range(2):
        seed_generators()
        drawn.append((torch.rand(3).tolist(), random.random()))
    assert drawn[0] == drawn[1]
