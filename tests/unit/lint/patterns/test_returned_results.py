"""Results on a stream of an object that a method returns, and whose memory the stream reuses."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.returned_results import returned_result

CLASS = """
class Loader:
    def preload(self):
        with torch.cuda.stream(self.s):
            {work}

    def next(self):
        {wait}
        batch = self.batch
        {between}
        {give}

    def move(self, batch):
        return batch.cuda(non_blocking=True)

    def keep(self, batch):
        return batch
"""


def found(work="self.batch = self.move(next(self.source))", wait="pass", between="self.preload()", give="return batch"):
    source = textwrap.dedent(CLASS).format(work=work, wait=wait, between=between, give=give)
    kind = ast.parse(source).body[0]
    return returned_result(kind, next(node for node in walk(kind) if isinstance(node, ast.With)), "s")


@pytest.mark.parametrize(
    "work",
    [
        "self.batch = self.move(next(self.source))",
        "self.batch = next(self.source).to(self.device, non_blocking=True)",
        "self.batch = self.callback(self.batch)",
        "self.batch = torch.randn(self.shape, device=self.device)",
    ],
)
def test_a_result_that_is_returned_is_recognized(work):
    assert found(work) == ("batch", "next")
    assert found(work, give="return self.batch, batch.shape") == ("batch", "next")
    assert found(work, give="return [batch]") == ("batch", "next")
    assert found(work, wait="torch.cuda.current_stream().wait_stream(self.s)") == ("batch", "next")


@pytest.mark.parametrize(
    "work",
    [
        "self.batch = self.keep(next(self.source))",
        "self.batch = next(self.source)",
        "self.batch = batch.cuda()",
        "self.batch = torch.empty(4, device='cpu')",
        "self.batch.copy_(self.source, non_blocking=True)",
        "batch = self.move(next(self.source))",
    ],
)
def test_other_blocks_allocate_nothing_that_the_object_keeps(work):
    assert found(work) == ("", "")


@pytest.mark.parametrize(
    "give", ["return batch.clone()", "return batch.shape", "return None", "self.last = batch", "return self.last"]
)
def test_only_what_a_method_returns_counts(give):
    assert found(give=give) == ("", "")


@pytest.mark.parametrize("wait", ["torch.cuda.synchronize()", "torch.cuda.current_stream().synchronize()"])
def test_the_host_may_wait_for_the_user(wait):
    assert found(wait=wait) == ("", "")
    assert found(wait="self.s.synchronize()") == ("batch", "next")
