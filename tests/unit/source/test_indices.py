"""Choice of a function's own index expression for an item."""

import ast

import pytest

from syncheck.source.indices import with_own_index

VALUES = {"slot": 1, "turn": 3}
SIZES = {"events": 2, "buffers": 2, "batches": 3}


def chosen(name, source, line=1):
    subscripts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Subscript)]

    def index_of(node):
        return eval(ast.unparse(node.slice), {}, VALUES)

    return with_own_index(name, subscripts, line, index_of, lambda base: SIZES.get(ast.unparse(base), 0))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("events[slot]", "events[slot]"),
        ("events[turn % 2]", "events[turn % 2]"),
        ("events[slot]\nevents[turn % 2]", "events[1]"),  # ambiguous
        ("events[slot - 1]", "events[1]"),  # another item
        ("buffers[slot]", "events[slot]"),  # a parallel container
        ("\nbuffers[slot]", "events[1]"),  # on another line
        ("batches[slot]", "events[1]"),  # more items
        ("events[turn % 2]\nbuffers[slot]", "events[turn % 2]"),  # its own index is better
        ("others[slot]", "events[1]"),
    ],
)
def test_the_index_of_the_same_item_is_chosen(source, expected):
    assert chosen("events[1]", source) == expected


@pytest.mark.parametrize("name", ["event", "events[slot]", "self.event"])
def test_a_name_without_a_constant_index_is_unchanged(name):
    assert chosen(name, "events[slot]") == name
