"""Memory that a block on a side stream overwrites just after another stream has allocated it."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.fresh_memory import fresh_memory

CLASS = """
class Loader:
    def __init__(self):
        self.s = torch.cuda.Stream()

    def load(self, x):
        {before}
        y = {made}
        {between}
        with torch.cuda.stream(self.s):
            {work}

    def other(self, x):
        {other}
"""
EMPTY = "torch.empty_like(x, device=self.device)"
WORK = "y.copy_(x, non_blocking=True)"


def found(made=EMPTY, work=WORK, before="pass", between="pass", other="pass", name="load"):
    source = CLASS.format(made=made, work=work, before=before, between=between, other=other)
    kind = ast.parse(textwrap.dedent(source).replace("load", name)).body[0]
    blocks = [node for node in walk(kind) if isinstance(node, ast.With)]
    return fresh_memory(kind, blocks[0], "s", blocks)


def test_a_copy_into_new_memory_of_another_stream_is_found():
    memory = found()
    assert (memory.name, memory.write.lineno, memory.allocation.lineno, memory.is_filled) == ("y", 11, 8, False)
    assert found("torch.zeros(4, device='cuda')").is_filled
    assert found("x.new_empty(4, device=device)")
    assert found(work="y[1:].view(-1).copy_(x, non_blocking=True)")
    assert found(between="pass; self.y = torch.full((4,), 1, device=d)", work=f"self.{WORK}").name == "self.y"


@pytest.mark.parametrize(
    "made",
    [
        "torch.empty_like(x)", "torch.empty(4, device='cpu')", "torch.empty(4, device=self.cpu_device)", "load(x)",
        "torch.empty(4, pin_memory=True, device=d)", "torch.empty(4, device=self.offload_device)", "x",
    ],
)  # fmt: skip
def test_memory_that_may_be_of_the_host_is_not_found(made):
    assert found(made) is None


@pytest.mark.parametrize("work", ["y.copy_(x)", "x.copy_(y, non_blocking=True)", "y = load(x)", "y.add_(x)"])
def test_only_a_copy_that_does_not_wait_into_the_memory_counts(work):
    assert found(work=work) is None


@pytest.mark.parametrize(
    "between",
    [
        "self.s.wait_stream(torch.cuda.current_stream())", "self.s.wait_event(e)", "e.wait(self.s)", "n = x.item()",
        "torch.cuda.synchronize()", "y = load(x)", "self.wait_for_all()", "y, z = self.slots",
    ],
)  # fmt: skip
def test_a_wait_before_the_block_orders_it(between):
    assert found(between=between) is None


def test_a_wait_inside_the_block_orders_it():
    assert found(work=f"e.wait(); {WORK}") is None


@pytest.mark.parametrize(
    "other",
    [
        "self.s.wait_stream(torch.cuda.current_stream()); self.load(x)",
        "torch.cuda.synchronize()\n        self.load(x)",
        "with torch.cuda.stream(self.s): self.load(x)",
        "with torch.cuda.stream(self.s): loader.load(x)",
    ],
)  # fmt: skip
def test_a_caller_may_order_it(other):
    assert found(other=other) is None
    assert found(other="self.load(x)")


def test_the_block_may_own_the_memory():
    assert found(before="with torch.cuda.stream(self.s): y = torch.empty(4, device=d)", made="y") is None


def test_a_constructor_reuses_little_memory_but_may_fill_some():
    made = "torch.empty(4, device=d)"
    source = f"""
class Loader:
    def __init__(self, x):
        self.y = {made}
        with torch.cuda.stream(self.s):
            self.y.copy_(x, non_blocking=True)
"""

    def memory(source):
        kind = ast.parse(source).body[0]
        blocks = [node for node in walk(kind) if isinstance(node, ast.With)]
        return fresh_memory(kind, blocks[0], "s", blocks)

    assert memory(source) is None
    assert memory(source.replace("empty", "zeros"))
