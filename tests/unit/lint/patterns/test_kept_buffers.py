"""Buffers that a block copies to the host although its stream did not wait for the stream that fills them."""

import ast

import pytest

from syncheck.lint.patterns.kept_buffers import unordered_fetch

CACHE = """
class Cache:
    def __init__(self, n, device):
        self.gpu = {gpu}
        self.host = torch.empty(n, pin_memory=True)
        self.stream = torch.cuda.Stream()
    def write(self, i, x):
        {write}
    def offload(self, i):
        {before}
        with torch.cuda.stream(self.stream):
            {copy}
    {more}
"""
PARTS = {
    "gpu": "torch.zeros(n, device=device)",
    "write": "self.gpu[i].copy_(x)",
    "before": "pass",
    "copy": "self.host[i].copy_(self.gpu[i], non_blocking=True)",
    "more": "n = 3",
}


def found(**parts):
    kind = ast.parse(CACHE.format(**(PARTS | parts))).body[0]
    blocks = [node for node in ast.walk(kind) if isinstance(node, ast.With)]
    return unordered_fetch(kind, blocks[0], "stream", blocks)


@pytest.mark.parametrize("parts", [{}, {"write": "self.gpu[i] = x"}, {"write": "self.gpu.index_copy_(0, i, x)"}])
def test_a_copy_of_what_another_method_fills_is_found(parts):
    assert found(**parts) is not None


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "self.stream.wait_stream(torch.cuda.current_stream())"},
        {"before": "torch.cuda.synchronize()"},
        {"copy": "self.host[i].copy_(self.gpu[i])"},
        {"copy": "self.gpu[i].copy_(self.host[i], non_blocking=True)"},
        {"write": "y = self.gpu[i] + x"},
        {"write": "self.other[i].copy_(x)"},
        {"gpu": "torch.zeros(n)"},
        {"gpu": "torch.zeros(n, device='cpu')"},
        {"more": "def all(self):\n        self.wait()\n        self.offload(1)"},
        {"write": "with torch.cuda.stream(self.stream): self.gpu[i].copy_(x)"},
    ],
)
def test_other_copies_are_not_found(parts):
    assert found(**parts) is None
