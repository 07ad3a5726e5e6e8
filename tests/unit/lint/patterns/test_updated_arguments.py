"""Gradients and parameters of the caller that a block changes in place."""

import ast
import textwrap

import pytest

from syncheck.lint.patterns.updated_arguments import updated_argument


def is_updated(work, before="pass"):
    body = f"{before}\nwith torch.cuda.stream(self.s):\n" + textwrap.indent(work, "    ")
    kind = ast.parse("class A:\n    def hook(self, p, n):\n" + textwrap.indent(body, " " * 8)).body[0]
    block = next(node for node in kind.body[0].body if isinstance(node, ast.With))
    return updated_argument(kind, block) is not None


@pytest.mark.parametrize(
    ("work", "before"),
    [
        ("p.grad.div_(n)", "pass"),
        ("p.data.copy_(self.full)", "pass"),
        ("grad.div_(n)", "grad = p.grad"),
        ("if n:\n    p.main_grad.add_(p.grad)", "pass"),
        ("grad = p.grad\ngrad.mul_(n)", "pass"),
    ],
)
def test_changed_gradients_and_parameters_are_recognized(work, before):
    assert is_updated(work, before)


@pytest.mark.parametrize(
    ("work", "before"),
    [
        ("y = p.grad.div(n)", "pass"),
        ("p.copy_(n)", "pass"),  # an output of its own
        ("self.p.grad.div_(n)", "pass"),
        ("q.grad.div_(n)", "pass"),
        ("p.buffer.add_(n)", "pass"),
        ("grad.div_(n)", "grad = p.grad.clone()"),
        ("y = 1", "p.grad.div_(n)"),
    ],
)
def test_other_changes_do_not_matter(work, before):
    assert not is_updated(work, before)
