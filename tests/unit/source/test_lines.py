"""Source positions of instructions."""

import dis

from syncheck.source.lines import lines_of, position


def example(x):
    y = [
        x,
        x + 1,
    ]
    return [
        z + 1
        for z in y
    ]  # fmt: skip


def test_the_lines_of_all_instructions_are_those_of_their_positions():
    code = example.__code__
    offsets = {instruction.offset for instruction in dis.get_instructions(code)}
    assert lines_of(code, offsets) == {position(code, offset)[0] for offset in offsets}
    assert len(lines_of(code, offsets)) > 3


def test_each_instruction_has_its_own_line():
    code = example.__code__
    for instruction in dis.get_instructions(code):
        assert lines_of(code, {instruction.offset}) == {position(code, instruction.offset)[0]}


def test_a_function_that_has_not_begun_is_at_its_first_instruction():
    assert lines_of(example.__code__, {-1}) == {position(example.__code__, -1)[0]}
