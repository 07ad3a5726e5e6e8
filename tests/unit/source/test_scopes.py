"""Names that are visible at a line."""

import textwrap

import pytest

from syncheck.source.scopes import scopes_of

PROGRAM = textwrap.dedent('''\
    import torch as th
    from torch.cuda import Stream

    copy = Stream()


    class Loader:
        size = 4

        def __init__(self, data):
            self.stream = Stream()
            self.data = data

        def fetch(self):
            for item in self.data:
                batch = item
                self.use(batch)
            return batch

        @staticmethod
        def free(self):
            return self


    class Other:
        def run(self):
            inner = 1

            def nested():
                return inner + size

            return nested


    def main(streams):
        global copy
        late()
        buffers = [None for number in range(3)]
        for index in range(2):
            late = streams[0]
            if (early := index):
                break
        with open("x") as file:
            copy = file
        return th.zeros(3)
    ''')  # fmt: skip


def line_of(text):
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


@pytest.fixture
def scopes():
    return scopes_of(PROGRAM)


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("copy", "self.use(batch)"),
        ("self.stream", "self.use(batch)"),
        ("item", "batch = item"),
        ("batch", "return batch"),
        ("batch", "batch = item"),  # of the iteration before
        ("th.cuda", "return batch"),
        ("inner", "return inner"),
        ("buffers", "for index in"),
        ("late", "if (early"),
        ("early", "with open"),
        ("file", "return th.zeros"),
        ("streams[0]", "late()"),
        ("print(copy)", "return batch"),
    ],
)
def test_a_name_that_is_bound_before_is_visible(scopes, expression, at):
    assert scopes.is_visible(expression, line_of(at))


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        ("self.stream", "return th.zeros"),
        ("size", "return inner"),  # functions do not see the names of a class
        ("inner", "return th.zeros"),
        ("late", "late()"),  # bound later
        ("batch", "for item in self.data"),
        ("number", "for index in"),  # of a comprehension
        ("file", "with open"),
        ("batch", "late()"),
        ("not an expression", "late()"),
        ("nothing", "late()"),
    ],
)
def test_a_name_that_is_bound_elsewhere_or_later_is_not(scopes, expression, at):
    assert not scopes.is_visible(expression, line_of(at))


@pytest.mark.parametrize(
    ("expression", "at", "other", "same"),
    [
        ("self.stream", "self.stream =", "self.use(batch)", True),
        ("self.stream", "self.stream =", "return nested", False),
        ("self.stream", "self.stream =", "return self", False),
        ("copy", "copy = Stream()", "self.use(batch)", True),
        ("copy", "copy = Stream()", "return th.zeros", True),
        ("batch", "batch = item", "self.use(batch)", True),
        ("batch", "batch = item", "return th.zeros", False),
        ("inner", "inner = 1", "return inner", True),
        ("buffers[1]", "buffers =", "for index in", False),
        ("buffers[1]", "buffers =", "late = ", False),
        ("buffers['left']", "buffers =", "late = ", True),
    ],
)
def test_an_expression_means_the_same_where_its_names_are_the_same_variables(scopes, expression, at, other, same):
    assert scopes.means_the_same(expression, line_of(at), line_of(other)) is same


def test_an_import_is_known_by_the_name_that_it_has(scopes):
    assert scopes.name_of_import("torch", line_of("return batch")) == "th"
    assert scopes.name_of_import("numpy", line_of("return batch")) == ""


def test_a_line_belongs_to_its_innermost_statement(scopes):
    assert scopes.statement(line_of("self.use(batch)")).lineno == line_of("self.use(batch)")
    assert scopes.statement(3) is None
    assert scopes.is_in_loop(line_of("self.use(batch)"))
    assert not scopes.is_in_loop(line_of("return batch"))


def test_what_is_no_python_has_no_scopes():
    assert scopes_of("def (") is None
    assert scopes_of("x = " + "(" * 5000) is None
