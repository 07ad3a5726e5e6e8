"""Context managers and decorators of a file."""

import ast
import textwrap

import pytest

from syncheck.lint import deferred
from syncheck.lint.helpers import helpers_in, uses_helper

SOURCE = """
class Timer:
    def __enter__(self): self.t = now()
    def __exit__(self, *args): pass

class Profile:
    @contextmanager
    def section(self):
        now()
        yield
    def other(self):
        now()

@contextlib.contextmanager
def timed():
    now()
    yield

def log_time(function):
    def inner(*args):
        now()
        return function(*args)
    return inner

def plain():
    now()

@contextmanager
def idle():
    yield
"""


def test_helpers_that_start_something_are_found():
    found = helpers_in(ast.parse(SOURCE).body, lambda node: "now" in ast.unparse(node))
    assert found == {"Timer", "section", "timed", "log_time"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("def f(x):\n    with timed():\n        return x", True),
        ("def f(x):\n    with a, profile.timed() as t:\n        return x", True),
        ("@timed\ndef f(x):\n    return x", True),
        ("@timed(3)\ndef f(x):\n    return x", True),
        ("def f(x):\n    timed()\n    return x", False),
        ("def f(x):\n    with other():\n        return timed", False),
    ],
)
@pytest.mark.parametrize("is_deferred", [True, False])
def test_helpers_are_used_in_with_statements_and_as_decorators(function, expected, is_deferred):
    source = function + "\n" + textwrap.indent("# a long comment\n" * 20 + "pass\n", "    ")
    (node,) = (deferred.parse(source) if is_deferred else ast.parse(source)).body
    assert (deferred.text_of(node) is not None) is is_deferred
    assert uses_helper(node, frozenset({"timed"})) is expected
    assert not uses_helper(node, frozenset())
