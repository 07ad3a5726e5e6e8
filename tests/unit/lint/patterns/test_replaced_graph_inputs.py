"""Inputs of CUDA graphs that are replaced instead of filled."""

import textwrap

import pytest

from syncheck.lint.patterns import replaced_graph_inputs
from tests.unit.lint.checking import found_by

CAPTURE = "with torch.cuda.graph(graph):\n    y = net(x, *extra, scale=self.scale)\n"


def found(body, prefix="    "):
    lines = f"def f(self, graph, entry, batch, inputs):\n{textwrap.indent(body, '    ')}\n" if prefix else body
    return found_by(replaced_graph_inputs, lines)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"{CAPTURE}for b in batch:\n    x = b.cuda()\n    graph.replay()", 6),
        (f"{CAPTURE}x = batch\ngraph.replay()", 5),
        (f"{CAPTURE}self.scale = batch\nout = self.graph.replay()", 5),
        ("entry.inputs['a'].copy_(batch)\nentry.inputs['b'] = batch\nentry.graph.replay()", 4),
        ("entry.inputs['b'] = batch\nentry.inputs['a'].copy_(batch)\nentry.replay()", 4),
    ],
)
def test_a_replay_after_a_replacement_is_reported(body, line):
    assert found(body) == [("SYN904", line)]


def test_scripts_are_checked():
    assert found(f"{CAPTURE}x = batch\ngraph.replay()", prefix="") == [("SYN904", 4)]


@pytest.mark.parametrize(
    "body",
    [
        f"{CAPTURE}x.copy_(batch)\ngraph.replay()",
        f"{CAPTURE}kept = x\nx = batch\ngraph.replay()",
        f"{CAPTURE}kept = [x, 1]\nx = batch\ngraph.replay()",
        f"{CAPTURE}x = fill(x, batch)\ngraph.replay()",
        f"{CAPTURE}z = batch\ngraph.replay()",
        f"x = batch\n{CAPTURE}graph.replay()",
        f"x = batch\nwith warnings:\n{textwrap.indent(CAPTURE, '    ')}graph.replay()",
        f"{CAPTURE}graph.replay()\nx = batch",
        f"{CAPTURE}x = None\ngraph.replay()",
        f"{CAPTURE}self.n = self.n + 1\nself.graph.replay()",
        f"{CAPTURE}x = batch\nself.buffer.replay(3)",
        "entry.inputs['b'] = batch\nentry.graph.replay()",  # perhaps no input of the graph
        "entry.inputs['a'].copy_(batch)\nother.inputs['b'] = batch\nentry.graph.replay()",
        "inputs['a'].copy_(batch)\ninputs['b'] = batch\nentry.graph.replay()",
        "if batch:\n    entry.inputs['a'].copy_(batch)\n    entry.inputs['b'] = batch\nentry.graph.replay()",
    ],
)
def test_inputs_that_are_filled_and_other_variables_are_not_reported(body):
    assert found(body) == []
