"""Names that are certainly bound, and attributes that are certainly set."""

import ast
import textwrap

import pytest

from syncheck.source.assignment import are_attributes_set, is_certainly_bound


def is_bound_at_mark(source, *, initially=False):
    tree = ast.parse(textwrap.dedent(source))
    (mark,) = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and ast.unparse(node) == "mark()"]
    return is_certainly_bound("e", tree.body, mark, initially=initially)


@pytest.mark.parametrize(
    "source",
    [
        "e = 1\nmark()",
        "import e\nmark()",
        "def e(): pass\nmark()",
        "with f() as e:\n    mark()",
        "for e in x:\n    mark()",
        "for i in x:\n    e = i\nmark()",  # assumed to run at least once
        "while True:\n    e = 1\n    break\nmark()",
        "if c:\n    e = 1\nelse:\n    e = 2\nmark()",
        "if c:\n    e = 1\nelse:\n    raise ValueError\nmark()",
        "for i in x:\n    if c:\n        continue\n    e = 1\n    mark()",
        "try:\n    e = 1\nexcept OSError:\n    raise\nmark()",
        "try:\n    pass\nfinally:\n    e = 1\nmark()",
        "match m:\n    case 1:\n        e = 1\n    case _:\n        e = 2\nmark()",
        "use(e)\nmark()",
        "if c:\n    mark()\n    use(e)",  # the program relies on it itself
        "if (e := f()):\n    pass\nmark()",
    ],
)
def test_a_name_bound_on_every_way_is_bound(source):
    assert is_bound_at_mark(source)


@pytest.mark.parametrize(
    "source",
    [
        "mark()\ne = 1",
        "for i in x:\n    mark()\n    e = i",  # not in the first iteration
        "while c:\n    mark()\n    e = i\n    use(e)",
        "if c:\n    e = 1\nmark()",
        "for i in x:\n    if c:\n        break\n    e = 1\nmark()",
        "try:\n    e = 1\nexcept OSError:\n    pass\nmark()",
        "try:\n    e = 1\nfinally:\n    mark()",
        "match m:\n    case 1:\n        e = 1\nmark()",
        "e = 1\ndel e\nmark()",
        "mark()\nif c:\n    use(e)",
        "mark()\nimport e\nuse(e)",
        "for i in x:\n    mark()\n    if c:\n        continue\n    use(e)",
        "f(lambda: e)\nmark()",
    ],
)
def test_a_name_that_some_way_does_not_bind_is_not_bound(source):
    assert not is_bound_at_mark(source)


def test_a_parameter_is_bound_until_it_is_deleted():
    assert is_bound_at_mark("for i in x:\n    mark()\n    e = i", initially=True)
    assert not is_bound_at_mark("del e\nmark()", initially=True)


def test_a_statement_that_is_never_reached_does_not_matter():
    assert is_bound_at_mark("raise ValueError\nmark()")


CLASS = """
class Ring(Base):
    size = 4

    def __init__(self):
        self.stream = make()
        self._reset()

    def _reset(self):
        self.queue = []

    def step(self):
        {step}

    def snap(self):
        self.copy, self.done = f()
"""


@pytest.mark.parametrize(
    ("expression", "step", "expected"),
    [
        ("self.stream", "mark()", True),
        ("self.queue[0]", "mark()", True),  # set by a method that the constructor calls
        ("self.size", "mark()", True),
        ("self.inherited", "mark()", True),
        ("self.done", "mark()", False),  # set by a method that may be called later
        ("self.done", "self.snap(); mark(); use(self.done)", True),
        ("self.done", "use(self.copy); mark()", True),  # set together with one that is used
        ("f(self.stream, self.done)", "mark()", False),
        ("other.done", "mark()", True),
        ("not an expression", "mark()", True),
    ],
)
def test_attributes_are_set_at_creation_or_before_they_are_used(expression, step, expected):
    (kind,) = ast.parse(CLASS.format(step=step)).body
    method = kind.body[3]
    mark = next(node for node in method.body if ast.unparse(node) == "mark()")
    assert are_attributes_set(expression, "self", kind, method, mark) is expected


@pytest.mark.parametrize("source", ["e = 1\nmark()\ndel e", "for i in x:\n    e = 1\n    mark()\n    del e"])
def test_what_comes_after_the_statement_does_not_matter(source):
    assert is_bound_at_mark(source)


@pytest.mark.parametrize(("attribute", "expected"), [("first", True), ("last", False), ("queue", True)])
def test_an_attribute_is_set_in_the_constructor_only_behind_its_assignment(attribute, expected):
    source = """
class A:
    def __init__(self):
        self.first = make()
        mark()
        self.last = make()
        self._reset()

    def _reset(self):
        self.queue = []

    def step(self):
        use(self.last)
"""
    (kind,) = ast.parse(source).body
    method = kind.body[0]
    assert are_attributes_set(f"self.{attribute}", "self", kind, method, method.body[1]) is expected
