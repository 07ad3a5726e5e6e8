"""All patterns together."""

import types

import pytest

from syncheck.lint.patterns import side_streams
from syncheck.lint.patterns.search import search
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

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
    context = context_of(SourceFile("program.py", text), known)
    assert search(context) == ""
    return context.known[len(known) :]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (INLINE, "SYN105"), (ONE_SIDED, "SYN105"), (UNUSED_EVENT, "SYN105"), (KEPT, "SYN105"), (QUEUED, "SYN105"),
        (OWN, "SYN201"), (COLLECTED, "SYN906"), ("def f(x):\n    return x + 1", ""),
    ],
)  # fmt: skip
def test_all_patterns_are_searched_for(text, code):
    assert [finding.rule.code for finding in found(text)] == ([code] if code else [])


def test_what_is_known_is_not_reported_again():
    assert found(KEPT, found(KEPT)) == []


def test_the_failure_of_a_pattern_hides_no_finding_of_another():
    def fail(context):
        yield from ()
        raise KeyError(len(context.known))

    broken = types.ModuleType("syncheck.lint.patterns.broken_streams")
    broken.can_matter, broken.findings = (lambda _: True), fail
    context = context_of(SourceFile("program.py", KEPT))
    problem = search(context, [broken, side_streams])
    assert [finding.rule.code for finding in context.known] == ["SYN105"]
    assert problem == "the check for broken streams failed, please report it: KeyError: 0"


def test_code_that_is_nested_too_deeply_is_no_failure_of_a_pattern():
    deep = types.ModuleType("deep")
    deep.can_matter, deep.findings = (lambda _: True), iter_too_deep
    with pytest.raises(RecursionError):
        search(context_of(SourceFile("program.py", KEPT)), [deep])


def iter_too_deep(context):
    yield from iter_too_deep(context)
