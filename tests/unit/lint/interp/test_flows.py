"""What becomes of the results of operators."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.flows import Flows
from syncheck.lint.interp.values import Block, Tensor

MADE, COMPUTED, COMBINED = 1, 2, 3
CODES = {"SYN101"}


def new(ident):
    return Tensor(Block(ident, 0, is_pinned=False, died=lambda _: None))


@pytest.fixture
def program():
    """Return the flows and tensors of `x = randn(); y = x * 2; z = y + x`."""
    flows, (x, y, z) = Flows(), map(new, (11, 12, 13))
    flows.launched("aten::randn", MADE, [(x, True)])
    flows.launched("aten::mul", COMPUTED, [(x, False), (y, True)])
    flows.launched("aten::add", COMBINED, [(y, False), (x, False), (z, True)])
    return flows, (x, y, z)


def unused(flows):
    return {site for _, site in flows.assumed_for(CODES)}


def free(flows, tensors):
    for tensor in tensors:
        flows.freed(tensor.block)


def test_what_is_freed_without_being_read_is_unused(program):
    flows, tensors = program
    free(flows, tensors)
    assert unused(flows) == {MADE, COMPUTED, COMBINED}
    assert flows.assumed_for({"SYN201"}) == {}


def test_what_a_used_result_is_computed_from_is_used(program):
    flows, tensors = program
    free(flows, tensors[:2])  # `z` still exists
    assert unused(flows) == set()


def test_a_read_by_the_host_is_a_use(program):
    flows, tensors = program
    flows.read_by_host([12])
    free(flows, tensors)
    assert unused(flows) == {COMBINED}


def test_an_operator_without_a_result_is_a_use(program):
    flows, (x, y, z) = program
    flows.launched("aten::item", 4, [(z, False)])
    free(flows, (x, y, z))
    assert unused(flows) == set()


def test_other_code_may_use_what_it_holds(program):
    flows, (x, y, z) = program
    z.block.escaped = True
    free(flows, (x, y, z))
    assert unused(flows) == set()


@pytest.mark.parametrize("operator", ["the caller's work", "aten::copy_", "aten::_to_copy"])
def test_data_is_not_made_up(operator):
    flows, x, y = Flows(), new(11), new(12)
    flows.launched(operator, MADE, [(x, True)])
    flows.launched("aten::mul", COMPUTED, [(x, False), (y, True)])
    free(flows, (x, y))
    assert unused(flows) == set()


BENCHMARK = """
import torch
def bench():
    side = torch.cuda.Stream()
    x = {make}
    with torch.cuda.stream(side):
        y = torch.mm(x, x)
    torch.cuda.synchronize()
    {use}
"""


@pytest.mark.parametrize(
    ("make", "use", "level"),
    [
        ("torch.randn(64, 64, device='cuda')", "pass", "warning"),
        ("torch.zeros(64, 64, device='cuda')", "z = y + 1", "warning"),
        ("torch.randn(64, 64, device='cuda')", "return y", "error"),
        ("torch.randn(64, 64, device='cuda')", "print(y.sum().item())", "error"),
        ("torch.randn(64, 64, device='cuda')", "z = y + 1; check(z)", "error"),
        ("torch.randn(64, 64, device='cuda')", "results.append(y)", "error"),
    ],
)
def test_a_race_about_made_up_numbers_that_nothing_uses_is_a_warning(make, use, level):
    found = lint_source("m.py", Text(BENCHMARK.format(make=make, use=use))).findings
    assert [(f.rule.code, f.level.value) for f in found if f.level.value != "advice"] == [("SYN101", level)]
    assert found[0].message.endswith(", if something uses the result") == (level == "warning")
