"""Values that become part of a text."""

import ast

import pytest

from syncheck.lint.interp.formatting import is_template
from syncheck.lint.interp.values import UNKNOWN, Constant
from tests.unit.lint.program import follow


@pytest.mark.parametrize(
    ("use", "waits"),
    [
        ("'%.3f' % x", True),
        ("'%s %.3f' % ('x', x)", True),
        ("f'{n} ' '%.3f' % x", True),
        ("f'{x}'", True),
        ("'%d' % n", False),
        ("n % 3", False),
    ],
)
def test_the_host_waits_for_a_tensor_in_a_text(use, waits):
    program = follow(f"n = 3\nx = torch.ones(3, device='cuda').sum()\nshown = {use}")
    assert any("sync" in call for call in program.calls) == waits


def test_templates_are_texts():
    expression = ast.parse("f'{a}' % b", mode="eval").body
    assert is_template(ast.Mod(), UNKNOWN, expression)
    assert is_template(ast.Mod(), Constant("%d"), ast.Pass())
    assert not is_template(ast.Mod(), Constant(7), ast.Pass())
    assert not is_template(ast.Add(), Constant("%d"), ast.Pass())
