"""Blocks that a hook reaches without a wait."""

import ast

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.hooked_blocks import is_reached_by_hook

SOURCE = """
class Adam:
    def __init__(self, params):
        self.side = torch.cuda.Stream()
        {registration}
    def on_grad(self, param):
        {hook}
        self.send()
    def send(self):
        {wait}
        with torch.cuda.stream(self.side):
            self.host.copy_(self.grad, non_blocking=True)
            self.done.record(self.side)
    def step(self):
        self.side.wait_stream(torch.cuda.current_stream())
        self.send()
"""
PARTS = {
    "registration": "for p in params: p.register_post_accumulate_grad_hook(self.on_grad)",
    "hook": "self.n += 1",
    "wait": "pass",
}


def is_reached(before="    def on_grad", **parts):
    (kind,) = ast.parse(SOURCE.format(**(PARTS | parts)).replace("    def on_grad", before)).body
    block = next(node for node in walk(kind) if isinstance(node, ast.With))
    return is_reached_by_hook(kind, block, "side")


def test_a_hook_that_does_not_wait_reaches_the_block():
    assert is_reached()
    assert is_reached(registration="params[0].register_hook(lambda grad: self.on_grad(grad))")


@pytest.mark.parametrize(
    "parts",
    [
        {"registration": "pass"},
        {"hook": "self.side.wait_stream(torch.cuda.current_stream())"},
        {"hook": "order(self.side)"},
        {"wait": "self.side.wait_event(self.ready)"},
        {"before": "    @after_the_default_stream\n    def on_grad"},
    ],
)
def test_waits_and_other_methods_do_not_count(parts):
    assert not is_reached(**parts)
