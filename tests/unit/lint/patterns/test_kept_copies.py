"""Copies that an object keeps until a method drops them."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.kept_copies import kept_copy

CLASS = """
class Pager:
    def __init__(self, layers):
        self.host = [layer.cpu() for layer in layers]

    def bring(self, i):
        with torch.cuda.stream(self.copies):
            weights = {{k: t.to(self.device, non_blocking=True) for k, t in self.host[i].items()}}
            arrived = self.copies.record_event()
        {keep}

    def enter(self, i):
        weights, arrived = self.resident[i]
        torch.cuda.current_stream().wait_event(arrived)
        return weights

    def leave(self, i):
        {wait}
        {drop}
"""


def found(keep="self.resident[i] = weights, arrived", wait="pass", drop="self.resident.pop(i)"):
    kind = ast.parse(textwrap.dedent(CLASS).format(keep=keep, wait=wait, drop=drop)).body[0]
    return kept_copy(kind, next(node for node in walk(kind) if isinstance(node, ast.With)), "copies")


@pytest.mark.parametrize("keep", ["self.resident[i] = weights, arrived", "self.resident[i] = weights"])
@pytest.mark.parametrize("drop", ["self.resident.pop(i)", "del self.resident[i]", "self.resident.clear()"])
def test_a_copy_that_is_kept_after_the_block_and_dropped_is_found(keep, drop):
    assert found(keep, drop=drop) == "self.resident[i]"


def test_a_wait_for_the_stream_itself_does_not_count():
    assert found(wait="self.copies.synchronize()") == "self.resident[i]"


@pytest.mark.parametrize(
    "other",
    [
        {"wait": "torch.cuda.synchronize()"},
        {"wait": "torch.cuda.current_stream().synchronize()"},
        {"drop": "pass"},
        {"drop": "self.others.pop(i)"},
        {"keep": "self.resident[i] = self.pack(weights)"},  # may copy
        {"keep": "self.resident[i] = arrived"},
    ],
)
def test_nothing_is_found_if_the_memory_may_be_safe(other):
    assert found(**other) == ""
