"""Copies on a stream of an object that a generator yields, and whose memory the stream reuses."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.yielded_copies import yielded_copy

CLASS = """
class Loader:
    def __iter__(self):
        ready = [self.move(next(self.source))]
        for batch in self.source:
            {before}
            with torch.cuda.stream(self.s):
                {work}
            {after}
            torch.cuda.current_stream().wait_stream(self.s)
            {give}

    def move(self, batch):
        return batch.cuda(non_blocking=True)

    def keep(self, batch):
        return batch
"""


def found(work="x = self.move(batch)", before="pass", after="ready.append(x)", give="yield ready.pop(0)"):
    source = textwrap.dedent(CLASS).format(work=work, before=before, after=after, give=give)
    kind = ast.parse(source).body[0]
    return yielded_copy(kind, next(node for node in walk(kind) if isinstance(node, ast.With)), "s")


@pytest.mark.parametrize(
    "work", ["x = self.move(batch)", "x = batch.to(self.device, non_blocking=True)", "x = [b.cuda(non_blocking=True)]"]
)
def test_a_copy_that_is_yielded_is_recognized(work):
    assert found(work) == "x"
    assert found(work, after="pass", give="yield x") == "x"


@pytest.mark.parametrize("work", ["x = self.keep(batch)", "x = batch.cuda()", "self.x = self.move(batch)", "pass"])
def test_other_blocks_copy_nothing(work):
    assert not found(work, after="pass")


def test_only_what_leaves_the_block_counts():
    assert not found(after="pass")
    assert found(after="self.queue.put(x)")


@pytest.mark.parametrize("give", ["return ready", "self.give(ready)"])
def test_only_generators_count(give):
    assert not found(give=give)


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        ("torch.cuda.synchronize()", ""), ("n = x.item()", ""), ("self.wait_for_all()", ""),
        ("self.s.synchronize()", "x"), ("done.wait()", "x"),
    ],
)  # fmt: skip
def test_a_host_wait_for_the_consumer_protects_the_memory(wait, expected):
    assert found(before=wait) == expected


def test_a_block_outside_of_loops_copies_once():
    source = textwrap.dedent(CLASS).format(work="x = self.move(batch)", before="pass", after="pass", give="yield x")
    kind = ast.parse(source.replace("for batch in self.source", "if self.source")).body[0]
    assert not yielded_copy(kind, next(node for node in walk(kind) if isinstance(node, ast.With)), "s")


def test_a_thread_may_copy():
    source = """
    class Loader:
        def __iter__(self):
            def produce():
                for batch in self.source:
                    with torch.cuda.stream(self.s):
                        x = batch.cuda(non_blocking=True)
                    queue.put(x)
            Thread(target=produce).start()
            while True:
                x = queue.get()
                torch.cuda.current_stream().wait_stream(self.s)
                yield x
    """
    kind = ast.parse(textwrap.dedent(source)).body[0]
    assert yielded_copy(kind, next(node for node in walk(kind) if isinstance(node, ast.With)), "s") == "x"
