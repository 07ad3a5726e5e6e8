"""Loops that keep the results of CUDA graphs."""

import textwrap

import pytest

from syncheck.lint.patterns.kept_graph_results import findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

RUNNER = """\
class Runner:
    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.out[:2]
    def pair(self, x):
        self.graph.replay()
        return self.out, x
"""
PREVIOUS = """\
last = None
for b in batches:
    y = runner(b)
    if last is not None:
        use(y - last)
"""
FIRST = RUNNER.count("\n") + 2
"""The line after that of the definition of the function."""


BUCKETED = """\
class Bucketed:
    def __call__(self, x):
        entry = self.entries[len(x)]
        entry.graph.replay()
        return entry.out
"""


def found(body, known=()):
    source = RUNNER + "def f(runner: Runner, other, batches, first, second):\n" + textwrap.indent(body, "    ")
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line - FIRST) for f in findings(context_of(file, known))]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("kept = []\nfor b in batches:\n    kept.append(runner(b))\nreturn kept", 2),
        ("kept = []\nfor b in batches:\n    y = runner(b)\n    kept.append(y[:1])\nreturn kept", 3),
        ("kept = []\nwhile first:\n    y = runner(first)\n    kept.append((first, y))\nreturn kept", 3),
        ("kept = {}\nfor i, b in batches:\n    kept[i] = runner(b)\nreturn kept", 2),
        ("kept = []\nfor b in batches:\n    y, x = runner.pair(b)\n    kept.append(y)\nreturn kept", 3),
        ("return torch.cat([runner(b) for b in batches])", 0),
        (f"{PREVIOUS}    last = y", 5),
        ("last = first\nfor b in batches:\n    y = runner(b)\n    use(y, last)\n    last, n = y, 1", 4),
        ("a = runner(first)\nb = runner(second)\nreturn a - b", 0),
    ],
)
def test_results_that_the_next_call_overwrites_are_reported(body, line):
    assert found(body) == [("SYN906", line)]


@pytest.mark.parametrize(
    "body",
    [
        "kept = []\nfor b in batches:\n    kept.append(runner(b).clone())\nreturn kept",
        "kept = []\nfor b in batches:\n    y = runner(b)\n    y = y.cpu()\n    kept.append(y)\nreturn kept",
        "kept = []\nfor b in batches:\n    kept.append(other(b))\nreturn kept",
        "kept = []\nfor r in batches:\n    kept.append(r(first))\nreturn kept",
        "kept = []\nfor b in batches:\n    r = Runner()\n    kept.append(r(b))\nreturn kept",
        "kept = []\nfor b in batches:\n    kept.append(runner(b))\n    use(kept.pop())\nreturn kept",
        "kept = Rollout()\nfor b in batches:\n    kept.append(runner(b))\nreturn kept",  # may copy
        "for b in batches:\n    kept = []\n    kept.append(runner(b))\n    use(kept)",
        "kept = []\nfor b in batches:\n    y, x = runner.pair(b)\n    kept.append(x)\nreturn kept",
        "out = first.clone()\nfor i, b in batches:\n    out[i] = runner(b)\nreturn out",  # a tensor, which is written
        "kept = {}\nfor b in batches:\n    kept[b] = runner(b)\nreturn kept",  # perhaps a graph for each
        "last = first\nfor b in batches:\n    y = runner(last)\n    last = y",
        "last = first\nfor b in batches:\n    y = runner(b)\n    last = y\nreturn last",
        "return torch.cat([runner(b).cpu() for b in batches])",
        "return [r(first) for r in batches]",
        "return [Runner() for b in batches]",
        "a = runner(first)\nuse(a)\nb = runner(second)\nreturn b",
        "a = runner(first)\nb = runner(second)\nassert a.shape == b.shape",
        "a = runner(first)\nb = other(second)\nreturn a - b",
        "a = runner(first).clone()\nb = runner(second)\nreturn a - b",
    ],
)
def test_copies_and_results_used_in_time_are_not_reported(body):
    assert found(body) == []


def test_a_line_with_a_finding_is_not_reported_again():
    body = "return [runner(b) for b in batches]"
    file = SourceFile("file.py", RUNNER + f"def f(runner: Runner, batches):\n    {body}")
    (known,) = findings(context_of(file))
    assert known.help == "keep a copy: `runner(b).clone()`"
    assert not list(findings(context_of(file, [known])))


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        ("kept = []\nfor b in batches:\n    kept.append(runner(b))", True),
        ("kept = []\nfor _ in range(4):\n    kept.append(runner(batches))", True),
        ("kept = []\nfor n in (2, 4):\n    kept.append(runner(batches[n]))", False),
        ("kept = []\nfor n in self.sizes:\n    kept.append(runner(batches[n]))", False),
        ("kept = {}\nfor i, b in batches:\n    kept[i] = runner(b)", False),
        ("a = runner(batches[0])\nb = runner(batches[1])\nreturn a - b", False),
        ("return [runner(b) for b in batches]", True),
        ("return [runner(batches[n]) for n in (2, 4)]", False),
    ],
)
def test_a_runner_with_a_graph_for_each_size_is_reported_in_loops_over_batches(body, is_found):
    file = SourceFile("file.py", BUCKETED + "def f(self, runner: Bucketed, batches):\n" + textwrap.indent(body, "    "))
    reported = findings(context_of(file))
    assert [finding.rule.code for finding in reported] == ["SYN906"] * is_found


def test_a_container_that_drops_old_items_and_runners_in_a_container_are_not_reported():
    for body in (
        "kept = deque(maxlen=2)\nfor b in batches:\n    kept.append(runner(b))",
        "kept = []\nfor b in batches:\n    kept.append(other[b.shape].run(b))",
        "kept = []\nfor b in batches:\n    kept.append(runner[b.shape](b))",
    ):
        assert found(body) == []
