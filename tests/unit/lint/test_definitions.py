"""Definitions of a file as libcst trees."""

import ast

import libcst as cst
import pytest

from syncheck.lint.definitions import Definitions
from syncheck.lint.files import lines_of

SOURCE = """\
import torch

@decorated
def f(x):
    # a comment
    if x:
        y = g(x,
              1)
    return y

a = 1; b = 2
"""


def definitions(source=SOURCE):
    return Definitions(ast.parse(source), lines_of(source))


def test_a_line_belongs_to_a_top_level_statement():
    found = definitions()
    assert [(found.at(line).lines.first, found.at(line).lines.last) for line in (1, 3, 8, 11)] == [
        (1, 1), (3, 9), (3, 9), (11, 11),
    ]  # fmt: skip
    assert found.at(2) is None
    assert found.at(99) is None
    assert found.at(4) is found.at(9)


def test_statements_that_share_a_line_are_one_definition():
    assert definitions().at(11).text == "a = 1; b = 2\n"
    source = "a = (1,\n2); b = (3,\n4)\nc = 5\n"
    assert (definitions(source).at(3).lines.first, definitions(source).at(3).lines.last) == (1, 3)


def test_the_innermost_statement_of_a_line_is_found():
    function = definitions().at(4)
    assert isinstance(function.statement_at(4), cst.FunctionDef)
    assert isinstance(function.statement_at(6), cst.If)
    assert isinstance(function.statement_at(8), cst.SimpleStatementLine)
    assert function.statement_at(99) is None


def test_positions_are_relative_to_the_file():
    function = definitions().at(4)
    call = function.node_at(7, 12, 8, 16)
    assert isinstance(call, cst.Call)
    assert (function.position(call).start.line, function.position(call).start.column) == (7, 12)
    assert function.node_at(7, 12, 8, 15) is None


def test_members_of_nested_classes_are_separate_definitions():
    source = "class A:\n    class B:\n        x = 1\n\n        def f(self):\n            g(1)\n\nclass C: y = 2\n"
    found = list(definitions(source).near(range(1, 9), with_whole_classes=False))
    assert [(part.lines.first, part.lines.last) for part in found] == [(3, 3), (5, 6), (8, 8)]
    call = found[1].node_at(6, 12, 6, 16)
    assert isinstance(call, cst.Call)
    assert found[1].function_at(6) == "f"


@pytest.mark.parametrize(
    ("lines", "with_whole_classes", "found"),
    [([5], False, [(5, 6)]), ([4], False, []), ([4, 8], True, [(1, 6), (8, 8)]), ([7], True, []), ([], True, [])],
)
def test_definitions_near_some_lines_contain_one_of_them(lines, with_whole_classes, found):
    source = "class A:\n    class B:\n        x = 1\n\n        def f(self):\n            g(1)\n\nclass C: y = 2\n"
    near = definitions(source).near(lines, with_whole_classes=with_whole_classes)
    assert [(part.lines.first, part.lines.last) for part in near] == found


def test_the_lines_of_a_compound_statement_are_those_of_its_header():
    source = "match f(\n    x\n):\n    case 1 if g(x):\n        y = 1\n    case 2:\n        y = 2\n"
    found = {line: definitions(source).statement_lines(line) for line in (1, 2, 4, 5, 7)}
    assert found == {1: (1, 3), 2: (1, 3), 4: (1, 4), 5: (5, 5), 7: (7, 7)}
    assert definitions("with a(\n    x\n):\n    y = 1\n").statement_lines(2) == (1, 3)
    assert definitions("if x:\n    y = [\n    ]\n").statement_lines(3) == (2, 3)
