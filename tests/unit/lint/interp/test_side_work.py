"""Unknown code that runs on a stream of the program's own."""

import ast

import pytest

from syncheck.lint.interp.side_work import calls_parameter, is_given_work_of_others, is_on_side_stream, use
from syncheck.lint.interp.values import UNKNOWN_STREAM, Constant, Sequence, Tensor
from tests.unit.lint.program import new_program

NODE = ast.parse("f()", mode="eval").body


@pytest.fixture
def side(machine):
    """A new stream that is current on device 0."""
    stream = machine.new_stream(0, NODE)
    machine.thread.streams = {0: stream.ident}
    return stream


def tensor(machine, stream=None, device=0):
    """Return a tensor created on a stream, by default on the default stream."""
    made = machine.default_stream(device or 0) if stream is None else stream
    return Tensor(machine.allocate(device, NODE, is_pinned=device is None), stream=made)


def test_a_stream_that_the_program_created_is_a_side_stream(machine, side):
    assert is_on_side_stream(machine)
    machine.thread.device = 1
    assert not is_on_side_stream(machine)


@pytest.mark.parametrize("streams", [{}, {0: UNKNOWN_STREAM}])
def test_a_default_or_unknown_stream_is_not_a_side_stream(streams, machine):
    machine.thread.streams = streams
    assert not is_on_side_stream(machine)


@pytest.mark.parametrize(
    ("called", "is_side", "expected"),
    [("fn()", True, True), ("fn()", False, False), ("print()", True, False), ("self.fn()", True, False)],
)
def test_a_parameter_that_is_called_on_a_side_stream(called, is_side, expected):
    program = new_program(f"def f(self, fn):\n    {called}")
    if is_side:
        program.machine.thread.streams = {0: program.machine.new_stream(0, NODE).ident}
    call = program.tree.body[0].body[0].value
    assert calls_parameter(program.machine, call) == expected


def test_a_tensor_of_another_stream_is_the_work_of_others(machine, side):
    x = tensor(machine)
    assert is_given_work_of_others(machine, [x])
    assert is_given_work_of_others(machine, [Constant(1), Sequence([tensor(machine, side.ident), x])])
    assert is_given_work_of_others(machine, [tensor(machine, machine.new_stream(0, NODE).ident)])


def test_other_arguments_are_not_the_work_of_others(machine, side):
    escaped = tensor(machine)
    escaped.block.escaped = True
    assert not is_given_work_of_others(machine, [])
    assert not is_given_work_of_others(machine, [Constant(1)])
    assert not is_given_work_of_others(machine, [tensor(machine, side.ident)])
    assert not is_given_work_of_others(machine, [tensor(machine, UNKNOWN_STREAM)])
    assert not is_given_work_of_others(machine, [tensor(machine, device=1)])
    assert not is_given_work_of_others(machine, [tensor(machine, device=None)])
    assert not is_given_work_of_others(machine, [escaped])


def test_on_the_default_stream_nothing_is_the_work_of_others(machine):
    assert not is_given_work_of_others(machine, [tensor(machine, machine.new_stream(0, NODE).ident)])


def test_a_branch_followed_only_for_order_has_no_work_of_others(machine, side):
    x = tensor(machine)
    machine.ordering_only = 1
    assert not is_given_work_of_others(machine, [x])


def test_a_capture_has_no_work_of_others(machine, side):
    x = tensor(machine)
    machine.session.capture_begin(1, side.ident, 0)
    assert not is_given_work_of_others(machine, [x])


def test_unknown_code_reads_the_gpu_tensors_that_it_gets(machine, program, side):
    x, y, host = tensor(machine), tensor(machine), tensor(machine, device=None)
    start = len(program.calls)
    assert use(machine, [x, Constant(1), host, Sequence([y])], NODE) == [x, y]
    assert program.calls[start:] == ["launch s1 unknown code r1 r2"]


def test_each_tensor_is_read_on_the_current_stream_of_its_device(machine, program, side):
    x, y = tensor(machine), tensor(machine, device=1)
    start = len(program.calls)
    assert use(machine, [y, x], NODE) == [y, x]
    assert sorted(program.calls[start:]) == ["launch cuda:1 unknown code r2", "launch s1 unknown code r1"]


def test_without_gpu_tensors_unknown_code_launches_nothing(machine, program):
    host = tensor(machine, device=None)
    start = len(program.calls)
    assert use(machine, [host, Constant(1)], NODE) == []
    assert program.calls[start:] == []
