"""The GPU state that a rule can query at an expression."""

from typing import ClassVar

import libcst as cst
import pytest

from syncheck.lint.definitions import Definition
from syncheck.lint.gpu_state import GpuState
from syncheck.lint.rules.visitor import LintRule
from syncheck.lint.source_file import SourceFile
from syncheck.lint.syntactic_rules import check
from syncheck.rules.model import Rule, Severity

SOURCE = """\
import torch

side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
host = torch.ones(4).pin_memory()
with torch.cuda.stream(side):
    probe(x)
    side.wait_stream(torch.cuda.default_stream())
    probe(x)
    y = x * 2
probe(y)
probe(side)
probe(host)
probe("é", y)
for stream in (side, torch.cuda.default_stream()):
    y = x + 1
    with torch.cuda.stream(stream):
        probe(y)


def never(unknown):
    with torch.cuda.stream(unknown):
        probe(1)
"""


class Probe(LintRule):
    rule = Rule("PROBE1", "probe", Severity.ADVICE, "probe", doc="A probe.")
    states: ClassVar[list[GpuState | None]] = []

    def visit_Call(self, node: cst.Call) -> None:
        if self.code(node.func) == "probe":
            state = self.gpu_state(node.args[-1].value)
            self.states.append(state)


@pytest.fixture(scope="module")
def states():
    Probe.states = []
    found, problem, _ = check(SourceFile("program.py", SOURCE), [Probe])
    assert (found, problem) == ([], "")
    return Probe.states


def test_the_state_has_the_current_stream_and_its_pending_streams(states):
    before, after = states[:2]
    assert (before.current_stream.name, before.current_stream.device, before.current_stream.is_default) == (
        "side", 0, False,
    )  # fmt: skip
    assert [stream.is_default for stream in before.pending] == [True]
    assert after.pending == ()
    assert str(before.current_stream) == "`side`"


def test_a_tensor_has_its_stream_and_whether_it_is_ready(states):
    before, after, other = states[:3]
    assert (before.tensor.device, before.tensor.stream.is_default, before.tensor.is_ready) == (0, True, False)
    assert after.tensor.is_ready
    assert other.current_stream.is_default
    assert (other.tensor.stream.name, other.tensor.is_ready) == ("side", False)
    assert str(other.current_stream) == "the default stream of cuda:0"


def test_streams_and_host_memory_have_a_state(states):
    stream, host = states[3:5]
    assert (stream.stream.name, stream.tensor) == ("side", None)
    assert (host.tensor.device, host.tensor.is_pinned, host.tensor.stream) == (None, True, None)


def test_columns_count_characters(states):
    assert states[5].tensor.stream.name == "side"


def test_a_state_that_differs_between_iterations_is_unknown(states):
    looped = states[6]
    assert looped.current_stream is None
    assert looped.tensor is None  # ready on only one of the two streams


def test_an_unknown_stream_is_none(states):
    assert states[7].current_stream is None


def test_an_expression_that_is_never_evaluated_has_no_state():
    source = SourceFile("program.py", "import torch\nif False:\n    probe(torch)\n")
    Probe.states = []
    check(source, [Probe])
    assert Probe.states == [None]


def test_definitions_are_found_by_line():
    source = SourceFile("program.py", SOURCE)
    definition = source.definitions.at(23)
    assert isinstance(definition, Definition)
    assert definition.function_at(23) == "never"
    assert source.definitions.at(19) is None
    assert source.definitions.statement_lines(6) == (6, 6)
