"""Whether a statement of a caller can be between two calls, judged by their stacks."""

import ast

import pytest

from syncheck.findings import Frame
from syncheck.sanitizer.insertion import are_in_one_library_call, before_stream_block, launches, runs_again, times_code
from syncheck.sanitizer.monitor import SourceLine
from syncheck.source.scopes import Scopes
from tests.unit.sanitizer.program import Text

USER = Frame("program.py", 20, function="train")


def library(line, function="step"):
    return Frame("acme/optimizer.py", line, function=function, is_user=False)


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ((library(162), USER), (library(168), USER), True),
        ((library(93, "copy"), library(162), USER), (library(40, "run"), library(168), USER), True),
        ((library(168), USER), (library(162), USER), False),  # in two calls of the function
        ((library(162), USER), (library(162), USER), False),
        ((library(10, "forward_hook"), USER), (library(20, "backward_hook"), USER), False),
        ((library(162), USER), (library(168), Frame("program.py", 21, function="train")), False),
        ((Frame("program.py", 5, function="f"), USER), (Frame("program.py", 6, function="f"), USER), False),
        ((), (library(168), USER), False),
    ],
)
def test_two_calls_of_a_library_function_are_in_one_call_if_their_lines_are_in_order(earlier, later, expected):
    assert are_in_one_library_call(earlier, later) is expected


BLOCKS = """with lock:
    with torch.cuda.stream(s), torch.no_grad():
        a = f()
        with other:
            b = f()
    c = f()
"""


@pytest.mark.parametrize(("number", "expected"), [(3, 2), (5, 2), (2, None), (6, None)])
def test_the_line_of_the_stream_block_around_a_line(number, expected):
    line = SourceLine("a.py", number, 9, scopes=Scopes(ast.parse(BLOCKS), BLOCKS))
    found = before_stream_block(line)
    assert (found and found.number) == expected


def test_a_line_of_an_unknown_file_is_in_no_block():
    assert before_stream_block(SourceLine("a.py", 3)) is None


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        ((USER, Frame("program.py", 30)), (USER, Frame("program.py", 31)), True),
        ((), (), True),
        ((library(10), USER), (library(12), USER), False),  # both run in one call of a library, such as `backward()`
    ],
)
def test_a_call_of_the_program_runs_again(earlier, later, expected):
    sites = Text(stacks={50: earlier, 51: later, 20: earlier})
    sites.at_line = {50: 5, 51: 5}
    assert runs_again(sites, 51, 50) is expected
    assert runs_again(sites, 50, 50)
    assert not runs_again(sites, 20, 50)  # another line
    assert not runs_again(sites, 50, 0)


def line_of(source, number):
    scopes = Scopes(ast.parse(source), source)
    return SourceLine("program.py", number, 1, "main", scopes)


@pytest.mark.parametrize(
    "source",
    ["y = launch() + 1", "if launch().item(): print(1)", "while launch().item(): pass", "y = launch(); print(y)"],
)
def test_a_statement_that_launches_what_it_uses_has_to_be_split(source):
    line = line_of(source, 1)
    assert launches(line, (line,))
    assert not launches(line, ())


@pytest.mark.parametrize(
    ("source", "expected"),
    [("t = timeit.timeit(f)", True), ("ts = Timer(f).repeat(3)", True), ("t = time.time()", False)],
)
def test_calls_that_time_other_code(source, expected):
    assert times_code(ast.parse(source).body[0]) is expected
    assert not times_code(None)
