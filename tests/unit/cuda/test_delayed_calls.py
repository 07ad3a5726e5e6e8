"""Operator calls observed by a run with a delay."""

import torch

from syncheck.cuda.delayed_calls import Call, is_plain


def call(name, *tensors):
    return Call(name, True, 0, tensors, is_collective=False)


def test_an_in_place_operator_reads_the_tensor_it_modifies():
    x, y = torch.ones(2), torch.ones(2)
    assert [id(t) for t in call("aten::add_", (x, True), (y, False)).read] == [id(x), id(y)]


def test_an_out_argument_is_only_written():
    x, y = torch.ones(2), torch.ones(2)
    assert [id(t) for t in call("aten::neg", (x, False), (y, True)).read] == [id(x)]


def test_a_kernel_may_read_its_output():
    x = torch.ones(2)
    assert [id(t) for t in call("triton::kernel", (x, True)).read] == [id(x)]


def test_sparse_tensors_are_not_plain():
    assert not is_plain(torch.eye(2).to_sparse())
    assert is_plain(torch.eye(2).t())
