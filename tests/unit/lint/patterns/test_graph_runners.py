"""Functions that return results of the CUDA graphs that they replay."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import functions_in
from syncheck.lint.patterns.graph_runners import GraphRunners, imported_runners, may_run_graphs, results_of

RUNNER = """
class Runner:
    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.out[:2]
"""


def results(body):
    tree = ast.parse("def run(self, x, entry):\n" + textwrap.indent(textwrap.dedent(body), "    "))
    return results_of(tree.body[0]).are_kept


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.graph.replay()\nreturn self.out", (True,)),
        ("self.graphs[self.n].replay()\nreturn self.outs[self.n][:4].view(-1)", (True,)),
        ("entry.graph.replay()\nreturn entry.logits[:2], entry.state, x", (True, True, False)),
        ("slot = self.slots[x]\nslot.graph.replay()\nreturn slot.out", (True,)),
        ("self.graph.replay()\nout = self.out[:2]\nreturn out", (True,)),
        ("if x is None:\n    return x\nself.graph.replay()\nreturn self.out", (True,)),
    ],
)
def test_memory_of_the_object_or_beside_the_graph_is_a_result(body, expected):
    assert results(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "self.graph.replay()\nreturn self.out.clone()",
        "self.graph.replay()\nreturn self.out.cpu()",
        "self.graph.replay()\nout = self.out\nout = out + 1\nreturn out",
        "self.graph.replay()\nself.out = self.static.clone()\nreturn self.out",
        "self.graph.replay()\nreturn x",
        "self.graph.replay()\nreturn self",
        "self.graph.replay()",
        "self.buffer.replay(x)\nreturn self.out",
        "return self.out",
        "out = self.out\nif x:\n    return out\nself.graph.replay()",
        "self.graph.replay()\nif x:\n    return self.out.clone()\nreturn self.out",  # the caller may ask for a copy
        "self.graph.replay()\nreturn self.out.shape",
        "self.graph.replay()\nreturn self.out[self.out > 0]",
        "self.graph.replay()\nreturn self.out[torch.tensor([0])]",
        "self.graph.replay()\nreturn self.out[x]",  # perhaps rows
        "self.graph.replay()\nrow = self.rows[self.k]\nrow.copy_(self.out)\nreturn row",
        "k = self.turn\nself.turn ^= 1\nself.graphs[k].replay()\nreturn self.outs[k]",
        "self.graphs[self.turn].replay()\nself.turn = 1 - self.turn\nreturn self.out",
    ],
)
def test_copies_and_other_values_are_not(body):
    assert not any(results(body))


def test_variables_of_the_enclosing_function_are_results():
    tree = ast.parse(
        "def make(out, graph):\n    def run(x):\n        graph.replay()\n        return out\n    return run"
    )
    assert [results_of(function).are_kept for function in functions_in(tree)] == [(), (True,)]


def of_calls(source, imported=None):
    """Return what the calls of `run`, and of objects called `runner`, return."""
    tree = ast.parse(source)
    runners = GraphRunners(tree, imported or {})
    kinds = {method: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for method in node.body}
    return [
        runners.results(call, function, kinds.get(function)).are_kept
        for function in functions_in(tree)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ("run" in ast.unparse(call.func))
    ]


@pytest.mark.parametrize(
    "user",
    [
        "def f(r: Runner, x):\n    return r.run(x)",
        "def f(r: 'Runner | None', x):\n    return r.run(x)",
        "def f(graph_runner, x):\n    return graph_runner.run(x)",
        "class A:\n    def __init__(self, r: Runner):\n        self.r = r\n    def f(self):\n        self.r.run(1)",
        "class A:\n    def __init__(self):\n        self.r = Runner()\n    def f(self):\n        return self.r.run(1)",
        "class A:\n    r: Runner\n    def f(self):\n        return self.r.run(1)",
    ],
)
def test_objects_of_such_a_class_are_recognized(user):
    assert of_calls(f"{RUNNER}\n{user}") == [(True,)]


@pytest.mark.parametrize(
    "user",
    [
        "def f(r: Other, x):\n    return r.run(x)",
        "def f(pool, x):\n    return pool.run(x)",
        "def f(x):\n    runner = Other()\n    return runner.run(x)",
        "def f(runner, x):\n    return runner.run_eagerly(x)",
    ],
)
def test_other_objects_are_not(user):
    assert of_calls(f"{RUNNER}\n{user}") == [()]


def test_objects_and_functions_can_be_called_themselves():
    called = RUNNER.replace("def run", "def __call__")
    assert of_calls(f"{called}\ndef f(runner, x):\n    return runner(x)") == [(True,)]
    function = "def make(out, graph):\n    def run(x):\n        graph.replay()\n        return out\n    return run(1)"
    assert of_calls(function) == [(True,)]


def test_a_method_of_the_same_object_is_followed():
    assert of_calls(f"{RUNNER}\n    def all(self, x):\n        return self.run(x)") == [(True,)]


def test_imported_classes_are_followed():
    (kind,) = ast.parse(RUNNER).body
    user = "def f(r: Fast, x):\n    return r.run(x)"
    assert of_calls(user, {"Fast": kind}) == [(True,)]


def test_only_likely_imports_are_looked_up():
    asked = []
    imports = {"np": "numpy", "Fast": "graphs.Fast", "x": "runner.x"}
    (kind,) = ast.parse(RUNNER).body
    found = imported_runners(imports, lambda name: asked.append(name) or (kind if name == "graphs.Fast" else None))
    assert found == {"Fast": kind}
    assert asked == ["graphs.Fast", "runner.x"]


def test_files_without_graphs_cannot_matter():
    assert may_run_graphs("graph.replay()")
    assert may_run_graphs("from m import GraphedForward")
    assert not may_run_graphs("import torch\nx = torch.ones(3)")
    assert not GraphRunners(ast.parse("class A:\n    def f(self): return self.x"), {}).are_any


CAPTURING = """
class Runner:
    def __init__(self, model):
        with torch.cuda.graph(self.graph):
            self.out, state = model(self.x)
        self.state = state
        self.turn = 0
    def run(self, x):
        self.graph.replay()
        return {returned}
"""


@pytest.mark.parametrize(("returned", "is_result"), [("self.out", True), ("self.state", True), ("self.turn", False)])
def test_only_what_the_capture_computes_is_a_result(returned, is_result):
    assert (
        any(of_calls(CAPTURING.format(returned=returned) + "\ndef f(runner):\n    return runner.run(1)")[0])
        is is_result
    )


@pytest.mark.parametrize(
    ("replay", "is_bucketed"),
    [("self.graph", False), ("self.graphs[self.n]", True), ("entry.graph", True), ("self.a.graph", False)],
)
def test_a_function_with_several_graphs_is_recognized(replay, is_bucketed):
    tree = ast.parse(f"def run(self, entry):\n    {replay}.replay()\n    return self.out")
    assert results_of(tree.body[0]).is_bucketed is is_bucketed
