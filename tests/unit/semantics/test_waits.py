"""Operators in which the host waits."""

import pytest
import torch

from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.semantics import waits
from syncheck.semantics.waits import HostWait, host_wait

NEVER, BEFORE, AFTER = HostWait
GPU = torch.ones(4)
"""Stands for a tensor on a GPU, as does every float32 tensor here."""
MASK, POSITIONS = torch.ones(4, dtype=torch.bool), torch.arange(4)
HOST_MASK, HOST_POSITIONS, NUMBER, HOST_NUMBER = MASK.clone(), POSITIONS.clone(), torch.ones(1), torch.ones(1)
HOST_TENSORS = (HOST_MASK, HOST_POSITIONS, HOST_NUMBER)
FACTS = TorchFacts(lambda tensor: all(tensor is not other for other in HOST_TENSORS))


def when(base, *args, **kwargs):
    return host_wait(base, args, kwargs, FACTS)


@pytest.mark.parametrize("base", ["add", "mm", "sum", "copy_", "masked_fill"])
def test_most_operators_do_not_wait(base):
    assert when(base, GPU, GPU) is NEVER


@pytest.mark.parametrize("base", ["_local_scalar_dense", "equal", "_unique2", "_linalg_svd", "_linalg_check_errors"])
def test_a_value_is_read_after_the_kernel_that_computes_it(base):
    assert when(base, GPU) is AFTER


@pytest.mark.parametrize("base", ["nonzero", "masked_select", "bincount", "linalg_pinv"])
def test_the_size_of_a_result_is_needed_before_its_kernel(base):
    assert when(base, GPU) is BEFORE


def test_repeat_interleave_waits_unless_repeats_are_a_number_or_the_size_is_given():
    assert when("repeat_interleave", GPU, POSITIONS) is BEFORE
    assert when("repeat_interleave", POSITIONS) is BEFORE  # the repeats alone
    assert when("repeat_interleave", GPU, repeats=POSITIONS) is BEFORE
    assert when("repeat_interleave", GPU, 2) is NEVER
    assert when("repeat_interleave", GPU, POSITIONS, output_size=8) is NEVER


def test_a_histogram_without_bounds_waits_for_them():
    assert when("histc", GPU) is BEFORE
    assert when("histc", GPU, 10, 0, 0) is BEFORE
    assert when("histc", GPU, 10, 0, 1) is NEVER
    assert when("histc", GPU, min=-1, max=1) is NEVER


@pytest.mark.parametrize(
    ("base", "args"),
    [
        ("masked_fill", (GPU, MASK)), ("masked_fill_", (GPU, MASK)), ("index_fill", (GPU, 0, POSITIONS)),
        ("normal", (GPU,)), ("linspace", (0,)), ("logspace", (0,)),
    ],
)  # fmt: skip
def test_a_number_on_the_gpu_is_waited_for_but_not_one_on_the_host(base, args):
    assert when(base, *args, NUMBER) is BEFORE
    assert when(base, *args, HOST_NUMBER) is NEVER
    assert when(base, *args, 2.0) is NEVER


def test_a_number_may_be_passed_by_keyword():
    assert when("masked_fill", GPU, MASK, value=NUMBER) is BEFORE
    assert when("linspace", 0, end=NUMBER) is BEFORE


@pytest.mark.parametrize("base", ["index", "index_put_"])
@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([MASK], BEFORE),  # its elements must be counted
        ([POSITIONS], NEVER),
        ([HOST_POSITIONS], BEFORE),  # it is copied to the GPU
        ([HOST_MASK], NEVER),  # counted at once, and copied from pinned memory
        ([None, POSITIONS], NEVER),
        ([None, MASK], BEFORE),
        ([POSITIONS, MASK], BEFORE),
        ([], NEVER),
    ],
)
def test_an_index_is_waited_for_if_it_must_be_counted_or_copied(base, indices, expected):
    assert when(base, GPU, indices, GPU) is expected


def test_a_mask_filled_with_a_host_number_is_not_counted():
    assert when("index_put_", GPU, [MASK], HOST_NUMBER) is NEVER
    assert when("index_put_", GPU, [MASK], NUMBER) is BEFORE  # that number is read
    assert when("index_put_", GPU, [MASK], HOST_NUMBER, True) is BEFORE  # accumulating is not filling
    assert when("index_put_", GPU, [MASK, MASK], HOST_NUMBER) is BEFORE


def test_a_missing_index_does_not_wait():
    assert when("index", GPU) is NEVER


def test_the_operators_exist_in_torch():
    names = waits.SYNCHRONIZING | waits.MASKED | waits.NUMBERS.keys()
    assert len([name for name in names if hasattr(torch.ops.aten, name)]) > 0.9 * len(names)
    for name in waits.READS_NUMBER:
        base, _, overload = name.partition(".")
        assert hasattr(getattr(torch.ops.aten, base), overload)


@pytest.mark.parametrize(("base", "arguments"), waits.NUMBERS.items())
def test_numbers_have_these_positions_in_a_schema(base, arguments):
    packet = getattr(torch.ops.aten, base)
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    for position, name in arguments:
        assert any(len(s.arguments) > position and s.arguments[position].name == name for s in schemas)


@pytest.mark.parametrize("base", ["nonzero", "_local_scalar_dense", "masked_fill_", "index", "index_put_", "linspace"])
def test_the_host_may_wait_in_some_calls(base):
    assert waits.may_wait(base)


@pytest.mark.parametrize("base", ["add", "mm", "copy_", "index_select"])
def test_most_operators_never_wait(base):
    assert not waits.may_wait(base)
