"""The GPU state at an expression of a file."""

import ast
import textwrap

import pytest

from syncheck.lint.gpu_state import GpuState, GpuStates, RecordingExpressions, StreamState, TensorState
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.lifetimes import by_reference_count
from tests.unit.lint.program import new_program

DEFAULT, SIDE = StreamState("", 0, is_default=True), StreamState("side", 0, is_default=False)


# -- states


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (DEFAULT, "the default stream of cuda:0"), (SIDE, "`side`"),
        (StreamState("x", 1, is_default=True), "the default stream of cuda:1"),
        (StreamState("", 0, is_default=False), "`<stream>`"),
    ],
)  # fmt: skip
def test_a_stream_is_shown_by_its_name(stream, words):
    assert str(stream) == words


def test_equal_states_merge_into_the_same_state():
    state = GpuState(SIDE, (DEFAULT,), TensorState(0, False, SIDE, is_ready=True), SIDE)
    assert state.merged(state) == state


def test_differing_values_merge_to_unknown_and_pending_streams_accumulate():
    one = GpuState(SIDE, (DEFAULT,), TensorState(0, False, SIDE, is_ready=True), SIDE)
    other = GpuState(DEFAULT, (SIDE, DEFAULT), TensorState(0, False, SIDE, is_ready=False), None)
    assert one.merged(other) == GpuState(None, (DEFAULT, SIDE), None, None)


def test_a_file_is_followed_lazily_and_once():
    followed = []

    def record(found):
        followed.append(1)
        found[1, 0, 1, 5] = GpuState(SIDE)

    states = GpuStates(record)
    assert followed == []
    assert states.at(1, 0, 1, 5) == GpuState(SIDE)
    assert states.at(1, 0, 1, 6) is None
    assert followed == [1]


def test_a_file_without_states_is_followed_once():
    followed = []
    states = GpuStates(lambda found: followed.append(1))
    assert (states.at(1, 0, 1, 5), states.at(1, 0, 1, 5)) == (None, None)
    assert followed == [1]


# -- recording

HEAD = """\
side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
host, pinned = torch.ones(4), torch.ones(4).pin_memory()
"""


def recorded(source):
    """Return the program's source and its states by position."""
    text = HEAD + textwrap.dedent(source)
    program = new_program(text)
    found = {}
    lines = text.splitlines()
    interpreter = Interpreter(
        program.machine, frozenset(), 4000, lambda *_: None, lambda e: RecordingExpressions(e, found, lines)
    )
    with by_reference_count():
        interpreter.run(program.tree.body, program.scope)
    return text, found


def state_of(expression, source):
    """Return the state at the last occurrence of an expression."""
    text, found = recorded(source)
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr) and ast.unparse(node) == expression
    ]
    last = max(nodes, key=lambda node: node.lineno)
    line = text.splitlines()[last.lineno - 1]
    column, end = (len(line.encode()[:offset].decode()) for offset in (last.col_offset, last.end_col_offset))
    return found.get((last.lineno, column, last.end_lineno, end))


def test_the_current_stream_and_its_pending_streams_are_recorded():
    state = state_of("probe", "with torch.cuda.stream(side):\n    probe")
    assert (state.current_stream, state.pending) == (SIDE, (DEFAULT,))
    state = state_of("probe", "side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n    probe")
    assert (state.current_stream, state.pending) == (SIDE, ())


def test_the_state_is_that_before_the_expression():
    state = state_of("x.add_(1)", "with torch.cuda.stream(side):\n    x.add_(1)\n")
    assert state.pending == (DEFAULT,)


@pytest.mark.parametrize(
    ("source", "is_ready"),
    [
        ("x", True),
        ("with torch.cuda.stream(side):\n    x", False),
        ("side.wait_stream(torch.cuda.default_stream())\nwith torch.cuda.stream(side):\n    x", True),
    ],
)
def test_a_tensor_is_ready_if_its_stream_was_waited_for(source, is_ready):
    assert state_of("x", source).tensor == TensorState(0, False, DEFAULT, is_ready=is_ready)


def test_host_memory_has_no_stream_and_is_ready():
    assert state_of("host", "host").tensor == TensorState(None, False, None, is_ready=True)
    assert state_of("pinned", "pinned").tensor == TensorState(None, True, None, is_ready=True)


def test_a_stream_expression_has_a_stream_state():
    assert state_of("side", "side").stream == SIDE
    assert (state_of("x", "x").stream, state_of("side", "side").tensor) == (None, None)


def test_with_an_unknown_current_stream_everything_is_unknown():
    state = state_of("x", "with torch.cuda.stream(unknown):\n    x\n")
    assert (state.current_stream, state.pending, state.tensor.is_ready) == (None, (), False)
    assert state_of("unknown.stream", "unknown.stream").stream is None


def test_a_tensor_created_on_an_unknown_stream_is_not_known_to_be_ready():
    source = (
        "with torch.cuda.stream(unknown):\n    y = torch.ones(4, device='cuda')\n    torch.cuda.current_stream()\ny"
    )
    assert state_of("y", source).tensor == TensorState(0, False, None, is_ready=False)
    assert state_of("torch.cuda.current_stream()", source).stream is None


def test_a_multi_line_expression_has_a_state():
    assert state_of("side if True else x", "print(side if True else\n  x)").stream == SIDE


def test_an_omitted_slice_bound_is_accepted():
    assert state_of("x[:2]", "x[:2]").tensor.is_ready


def test_states_of_a_place_visited_twice_are_merged():
    state = state_of(
        "probe", "for s in (side, torch.cuda.default_stream()):\n    with torch.cuda.stream(s):\n        probe"
    )
    assert state.current_stream is None
    assert state.pending == (DEFAULT,)


def test_columns_count_characters():
    assert state_of("side", "print('é', side)").stream == SIDE
    assert state_of("side", "print('''é\né''', side)").stream == SIDE


def test_ordering_only_branches_are_not_recorded():
    _, found = recorded("if unknown():\n    a = side\nelse:\n    b = x\n")
    lines = {line for line, *_ in found}
    assert lines & {5, 7} in ({5}, {7})


def test_an_implicit_expression_is_not_recorded():
    _, found = recorded("def f():\n    return\nf()")
    assert all(position[0] for position in found)
