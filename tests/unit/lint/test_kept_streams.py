"""The streams that a class creates and keeps."""

import ast
import textwrap

import pytest

from syncheck.lint.kept_streams import streams_kept_by


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
