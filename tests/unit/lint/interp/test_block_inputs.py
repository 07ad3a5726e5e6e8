"""Tensors on unknown devices that a stream block computes with."""

import ast

import pytest

from syncheck.lint.interp.block_inputs import block_inputs

SOURCE = """
def f(self, given):
    {make}
    host = torch.empty(4, pin_memory=True)
    with torch.cuda.stream(self.side):
        {use}
    {after}
"""


def found(make="x = torch.cat(given)", use="y = x * 2", after="pass"):
    tree = ast.parse(SOURCE.format(make=make, use=use, after=after))
    return {ast.unparse(call): name for call, name in block_inputs(tree).items()}


@pytest.mark.parametrize(
    "use",
    [
        "y = x * 2", "y = 2 - x[1:]", "y = torch.exp(x)", "y = F.relu(x.view(-1))", "x.add_(1)", "x.record_stream(s)",
        "host.copy_(x, non_blocking=True)", "y = x.sum()",
        "torch._foreach_add_(x, 1)", "dist.all_reduce(x)",
    ],
)  # fmt: skip
def test_what_a_block_computes_with_is_on_a_gpu(use):
    assert found(use=use) == {"torch.cat(given)": "x"}


@pytest.mark.parametrize("use", ["pass", "y.copy_(x, non_blocking=True)", "y = f(x)", "y = x", "self.x = x"])
def test_other_uses_show_nothing(use):
    assert found(use=use) == {}


@pytest.mark.parametrize("after", ["x.cuda()", "x.to(d)", "z = x.pin_memory()", "x.is_cuda", "return x.cpu()"])
def test_a_tensor_that_is_moved_may_be_on_the_host(after):
    assert found(after=after) == {}


@pytest.mark.parametrize(
    "make", ["x = given[0]", "x = f(given)", "x = torch.load(f)", "x = torch.from_numpy(a)", "x = 1"]
)
def test_only_operators_create_tensors(make):
    assert found(make=make) == {}


def test_what_a_block_creates_itself_does_not_count():
    assert found(make="pass", use="x = torch.cat(given); y = x * 2") == {}


def test_a_function_without_a_stream_block_has_no_inputs():
    assert block_inputs(ast.parse("def f(g):\n    x = torch.cat(g)\n    return x * 2")) == {}
