"""How a program can wait for the handles that a statement binds."""

import ast

import pytest

from syncheck.source.handles import wait_for


def waits(text, name, call="start("):
    (statement,) = ast.parse(text).body
    return wait_for(name, statement, 1, text.index(call) + 1)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("work = start(x)", "work", "work.wait()"),
        ("self.work: Work = start(x)", "self.work", "self.work.wait()"),
        ("done = start(x).get_future()", "done", "done.wait()"),
        ("works = [other(), start(x)]", "works[1]", "works[1].wait()"),
        ("use(work := start(x))", "work", "work.wait()"),
        ("works = [start(x) for x in xs]", "works[...]", "[handle.wait() for handle in works]"),
        ("works = {k: start(x) for k, x in xs}", "works[...]", "[handle.wait() for handle in works.values()]"),
    ],
)
def test_what_a_statement_binds_is_waited_for(text, name, expected):
    assert waits(text, name) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pending = Pending(start(x), x)", "pending"),
        ("works = [(start(x), x) for x in xs]", "works[...]"),
        ("works = (start(x) for x in xs)", "works[...]"),  # to go through them is to start them
        ("queue.append(start(x))", ""),
    ],
)
def test_what_only_holds_a_handle_has_no_wait(text, name):
    assert waits(text, name) == ""


def test_without_the_source_the_name_is_taken():
    assert wait_for("work", None, 1, 5) == "work.wait()"
    assert wait_for("work", ast.parse("work = use(start(x))").body[0], 1, 0) == "work.wait()"
    assert wait_for("works[...]", None, 1, 5) == ""
