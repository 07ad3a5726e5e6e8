"""Batches that an iterator loads on a stream of its own."""

import ast

import pytest

from syncheck.lint.patterns.loaded_batches import loaded_batch

LOADER = """
class Loader:
    def __next__(self):
        {wait}
        batch = self.pending.popleft()
        self.load()
        return {returned}
    def load(self):
        with torch.cuda.stream(self.stream):
            {work}
    def upload(self, x):
        return x.to(self.device, non_blocking=True)
    def describe(self, x):
        return x.shape
"""


def found(*, wait="pass", returned="batch", work="self.pending.append(apply(self.upload, next(self.source)))"):
    (kind,) = ast.parse(LOADER.format(wait=wait, returned=returned, work=work)).body
    (block,) = (node for node in ast.walk(kind) if isinstance(node, ast.With))
    return loaded_batch(kind, block, "stream")


@pytest.mark.parametrize(
    "work",
    [
        "self.pending.append(x.to(self.device, non_blocking=True))",
        "self.pending.append(self.upload(x))",
        "self.pending.append(apply(self.upload, x))",  # a helper calls it
    ],
)
def test_batches_that_the_block_copies_are_returned(work):
    assert found(work=work) == "__next__"


def test_blocks_that_copy_nothing_do_not_count():
    assert not found(work="self.pending.append(apply(self.describe, x))")
    assert not found(work="self.buffer.copy_(x, non_blocking=True)")  # memory that is not new


@pytest.mark.parametrize("returned", ["None", "self", "batch.clone()"])
def test_only_the_batches_themselves_count(returned):
    assert not found(returned=returned)


def test_a_host_that_waits_for_the_consumer_protects_the_memory():
    assert not found(wait="torch.cuda.synchronize()")
    assert found(wait="self.stream.synchronize()") == "__next__"


def test_other_classes_return_no_batches():
    (kind,) = ast.parse(LOADER.format(wait="pass", returned="batch", work="self.upload(x)")).body
    kind.body = kind.body[1:]
    assert not loaded_batch(kind, kind.body[0].body[0], "stream")
