"""Operators around which a run with a delay acts."""

import torch

from syncheck.cuda.delayed_calls import Call, is_plain


def call(name, *tensors):
    return Call(name, True, 0, tensors, is_collective=False)


def test_an_operator_in_place_reads_what_it_changes():
    x, y = torch.ones(2), torch.ones(2)
    assert [id(t) for t in call("aten::add_", (x, True), (y, False)).read] == [id(x), id(y)]


def test_what_out_names_is_only_written():
    x, y = torch.ones(2), torch.ones(2)
    assert [id(t) for t in call("aten::neg", (x, False), (y, True)).read] == [id(x)]


def test_what_a_kernel_writes_it_may_read():
    x = torch.ones(2)
    assert [id(t) for t in call("triton::kernel", (x, True)).read] == [id(x)]


def test_sparse_tensors_have_no_values_of_their_own():
    assert not is_plain(torch.eye(2).to_sparse())
    assert is_plain(torch.eye(2).t())
