"""The streams that a class creates and keeps."""

import ast
import textwrap

import pytest

from syncheck.lint.kept_streams import is_known_use, streams_kept_by


def kept(body):
    return streams_kept_by(ast.parse("class A:\n" + textwrap.indent(textwrap.dedent(body), "    ")).body[0])


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("torch.cuda.Stream()", True),
        ("stream or torch.cuda.Stream(device=device)", True),
        ("stream if stream is not None else torch.cuda.Stream()", True),
        ("torch.cuda.Stream() if stream is None else stream", True),
        ("torch.cuda.Stream() if use_cuda else None", True),
        ("[torch.cuda.Stream() for _ in range(2)]", True),
        ("{name: torch.cuda.Stream() for name in names}", True),
        ("[torch.cuda.Stream(), torch.cuda.Stream()]", True),
        ("[]", False),
        ("stream", False),
        ("torch.cuda.current_stream()", False),
        ("other if stream is None else torch.cuda.Stream()", False),
    ],
)
def test_a_value_may_be_a_new_stream(value, is_kept):
    assert kept(f"def __init__(self, stream=None):\n    self.s = {value}") == ({"s"} if is_kept else set())


def test_an_attribute_that_another_method_rebinds_is_not_the_stream():
    assert kept("def __init__(self):\n    self.s = torch.cuda.Stream()\ndef set(self, s):\n    self.s = s") == set()


def test_none_is_no_other_stream():
    assert kept("s = None\ndef start(self):\n    self.s = None\n    self.s = torch.cuda.Stream()") == {"s"}


OWNER = """class Owner:
    def __init__(self, layers):
        self.copies = torch.cuda.Stream()
        for layer in layers:
            layer.copies = self.copies
"""


def test_a_class_that_hands_its_stream_on_keeps_it():
    (owner,) = ast.parse(OWNER).body
    assert streams_kept_by(owner) == {"copies"}


@pytest.mark.parametrize(
    ("declared", "others", "is_kept"),
    [
        ("copies: torch.cuda.Stream", {"copies"}, True),
        ("copies: Optional[torch.cuda.Stream]", {"copies"}, True),
        ("copies: torch.Tensor", {"copies"}, False),
        ("copies: torch.cuda.Stream", set(), False),
        ("copies: torch.cuda.Stream\n    def set(self, copies):\n        self.copies = copies", {"copies"}, False),
    ],
)
def test_a_stream_that_another_class_sets_is_kept(declared, others, is_kept):
    (layer,) = ast.parse(f"class Layer:\n    {declared}\n").body
    assert streams_kept_by(layer, others) == ({"copies"} if is_kept else set())


@pytest.mark.parametrize(
    ("statement", "is_known"),
    [
        ("layer.copies = self.copies", True),
        ("if self.copies: pass", True),
        ("x = 1 if self.copies else 2", True),
        ("x = self.copies if wide else None", False),
        ("layer.other = self.copies", False),
        ("copies = self.copies", False),
        ("f(self.copies)", False),
    ],
)
def test_a_stream_that_is_tested_or_handed_on_is_not_given_away(statement, is_known):
    nodes = list(ast.walk(ast.parse(statement)))
    (use,) = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    parent = next(node for node in nodes if use in ast.iter_child_nodes(node))
    assert is_known_use(use, parent) == is_known
