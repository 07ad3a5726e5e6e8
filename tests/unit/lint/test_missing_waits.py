"""Findings about waits that are missing on every path."""

import ast

import pytest

from syncheck.lint.missing_waits import findings
from syncheck.lint.source_file import SourceFile

INLINE = """
def f(net):
    with torch.cuda.stream(torch.cuda.Stream()):
        made = wrap(net)
    return made
"""
ONE_SIDED = """
def f(x, side):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = g(x)
    return h(y)
"""
UNUSED_EVENT = """
def f(x, side):
    done = torch.cuda.Event()
    with torch.cuda.stream(side):
        y = g(x)
        done.record()
    return y
"""
KEPT = """
class A:
    def __init__(self):
        self.s = torch.cuda.Stream()
    def run(self, x):
        with torch.cuda.stream(self.s):
            self.y = x.to(self.device, non_blocking=True)
"""
QUEUED = """
from threading import Thread
def batches(source, queue):
    side = torch.cuda.Stream()
    def work():
        with torch.cuda.stream(side):
            queue.put(next(source).cuda(non_blocking=True))
    Thread(target=work).start()
    yield queue.get()
"""
OWN = """
def f(x, side):
    with torch.cuda.stream(side):
        y = x.cuda(non_blocking=True)
        y.record_stream(torch.cuda.current_stream())
    return y
"""


COLLECTED = """
class Runner:
    def __call__(self, x):
        self.graph.replay()
        return self.out
def f(runner: Runner, xs):
    return [runner(x) for x in xs]
"""


def found(text, known=()):
    source = SourceFile("program.py", text)
    body = source.tree.body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    functions += [member for kind in classes for member in kind.body]
    return findings(source, functions, classes, list(known), lambda _: None)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INLINE, "SYN105"), (ONE_SIDED, "SYN105"), (UNUSED_EVENT, "SYN105"), (KEPT, "SYN105"), (QUEUED, "SYN105"),
        (OWN, "SYN201"), (COLLECTED, "SYN906"), ("def f(x):\n    return x + 1", ""),
    ],
)  # fmt: skip
def test_all_checks_are_made(text, code):
    assert [finding.rule.code for finding in found(text)] == ([code] if code else [])


def test_what_is_known_is_not_reported_again():
    assert found(KEPT, found(KEPT)) == []
