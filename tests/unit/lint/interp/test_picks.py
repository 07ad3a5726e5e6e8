"""Items with unknown keys and indices."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.picks import known_key
from syncheck.lint.interp.values import NONE, UNKNOWN, Constant, Key, Mapping
from tests.unit.lint.program import calls_of, constant

S = "s = torch.cuda.Stream()\n"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a = {}\na[k] = 1", 1),
        ("a = {}\na[k] = 1\na[k] = 2", 2),
        ("a = {}\na[j] = 1\na[k] = 2", 2),
        ("a = {}\na[j] = 1", "unknown"),
        ("a = {}\na[k] = 1\nk = f()", "unknown"),
        ("a = {}\na[k] = 1\ndel a[k]", "unknown"),
        ("a = {}\na[k] = 1\ndel a[j]", "unknown"),
        ("a = {}\na[k] = 1\na.pop(k)", "unknown"),
        ("a = {}\na[k] = 1\na.pop(j)", "unknown"),
        ("a = {k: 1}", 1),
        ("k = 'x'\na = {'x': 1}", 1),
    ],
)
def test_the_same_expression_denotes_the_same_item(source, value):
    assert constant("a[k]", source) == value


def test_a_key_without_a_source_equals_no_other():
    made, same = Key("", ()), Key("", ())
    owner = Mapping({made: NONE, "x": NONE})
    assert known_key(owner, made, made) is made
    assert known_key(owner, UNKNOWN, same) is None
    assert known_key(owner, Constant("x"), None) == "x"
    assert known_key(owner, Constant("y"), None) is None


def test_an_unknown_key_may_equal_any_known_one():
    assert constant("a", "a = {'x': 1}\na[k] = 2") == {"[k]": 2, "...": "..."}


def test_all_items_of_a_dictionary_with_unknown_keys_are_known():
    before = "a = {name: 7 for name in f()}"
    assert constant("list(a.values())", before) == [7, 7, 7, "..."]
    assert constant("[a[key] for key in a]", before)[:3] == [7, 7, 7]
    assert constant("[item for _, item in a.items()]", before)[:3] == [7, 7, 7]
    assert constant("a.get(k)", "a = {}\na[k] = 3") == 3


def test_an_unknown_key_has_no_known_truth_or_equality():
    before = "a = {}\na[k] = 1\nn = list(a.keys())[0]"
    assert constant("n == 'x'", before) == "unknown"
    assert constant("not n", before) == "unknown"


RING = "a = [torch.zeros(1, device='cuda') for _ in range(2)]\n"


def test_different_indices_denote_different_tensors():
    assert calls_of("a[i].sin_()\na[i].cos_()", RING) == ["launch cuda:0 sin_ w1", "launch cuda:0 cos_ w1"]
    assert calls_of("a[i].sin_()\na[j].cos_()", RING) == ["launch cuda:0 sin_ w1", "launch cuda:0 cos_ w2"]
    assert calls_of("a[i].sin_()\na[j].sin_()\na[k].cos_()", RING)[2:] == []


def test_two_indices_may_denote_the_same_object():
    objects = "class Slot:\n    def __init__(self): self.n = 7\na = [Slot() for _ in range(2)]\n"
    assert constant("a[i].n", objects) == 7
    assert constant("[a[i].n, a[j].n]", objects) == [7, "attribute"]


@pytest.mark.parametrize(
    ("test", "value"), [("k in a", True), ("k not in a", False), ("j in a", "unknown"), ("'x' in {'x': 1}", True)]
)
def test_a_dictionary_has_the_keys_that_were_set(test, value):
    assert constant(test, "a = {}\na[k] = 1\n") == value


def test_two_indices_may_denote_the_same_stream():
    streams = "a = [torch.cuda.Stream() for _ in range(2)]\n"
    assert constant("a[i]", streams) == "stream"
    assert constant("[a[i], a[j]]", streams) == ["stream", "unknown"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a = {k: 1 for k in keys}\nfor name in names:\n    b = a[name]", 1),
        ("a = {k: 1 for k in keys}\nfor name in names:\n    a['x']\n    b = a[name]", 1),
        ("a = {k: 1 for k in keys}\nb = a[f()]", "unknown"),
        ("a = {k: 1 for k in keys}\ndel a[j]\nb = a[name]", "unknown"),
        ("a = {'x': 1}\nb = a[name]", "unknown"),
    ],
)
def test_a_variable_stands_for_an_item_that_a_comprehension_made(source, value):
    assert constant("b", source) == value


def test_the_iterations_of_a_loop_reach_all_items_that_a_comprehension_made():
    source = "a = {k: torch.ones(4, device='cuda') for k in keys}\ny = a['w'] + 1\n"
    calls = calls_of(source + "for name in names:\n    a[name].fill_(1)\n")
    assert calls[-4:] == [
        "launch cuda:0 add r1 w4", "launch cuda:0 fill_ w1", "launch cuda:0 fill_ w2", "launch cuda:0 fill_ w3",
    ]  # fmt: skip


RUNNER = """import torch
class Runner:
    def __init__(self, model, sizes):
        self.inputs = torch.zeros(8, device="cuda")
        self.side = torch.cuda.Stream()
        self.graphs = {{}}
        for size in sizes:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.side):
                out = model(self.inputs[:size])
            self.graphs[size] = (graph, out)

    def launch(self, x, bucket):
        {wait}
        graph, out = {picked}
        self.inputs.copy_(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            graph.replay()
            return out.clone(), self.side.record_event()

    def run(self, batches, bucket):
        return [self.launch(batch, bucket) for batch in batches]
"""


@pytest.mark.parametrize("picked", ["self.graphs[bucket]", "self.graphs.get(bucket)"])
@pytest.mark.parametrize(
    ("wait", "codes"), [("pass", ["SYN903"]), ("torch.cuda.current_stream().wait_stream(self.side)", [])]
)
def test_an_unknown_key_finds_one_of_the_graphs(picked, wait, codes):
    found = lint_source("a.py", Text(RUNNER.format(wait=wait, picked=picked))).findings
    assert [finding.rule.code for finding in found] == codes
