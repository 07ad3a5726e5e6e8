"""Waiting for the handles that a statement binds."""

import ast

import pytest

from syncheck.source.handles import container_in, last_taken, returns_several, wait_for, wait_for_all


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
        ("works = [(start(x), x) for x in xs]", "works[...]", "[item[0].wait() for item in works]"),
        ("works = {k: (x, start(x)) for k, x in xs}", "works[...]", "[item[1].wait() for item in works.values()]"),
    ],
)
def test_a_bound_handle_is_waited_for(text, name, expected):
    assert waits(text, name) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pending = Pending(start(x), x)", "pending"),
        ("works = (start(x) for x in xs)", "works[...]"),  # iterating over it would start the calls
        ("queue.append(start(x))", ""),
    ],
)
def test_an_object_that_only_holds_a_handle_has_no_wait(text, name):
    assert waits(text, name) == ""


def test_without_the_source_the_name_is_used():
    assert wait_for("work", None, 1, 5) == "work.wait()"
    assert wait_for("work", ast.parse("work = use(start(x))").body[0], 1, 0) == "work.wait()"
    assert wait_for("works[...]", None, 1, 5) == ""


def waits_for_all(text, kind="list"):
    (statement,) = ast.parse(text).body
    return wait_for_all(statement, 1, text.index("start(") + 1, kind)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("works.append(start(x))", "list", ("works", "[handle.wait() for handle in works]")),
        ("self.works.add(start(x))", "", ("self.works", "[handle.wait() for handle in self.works]")),
        ("sends.append((x, start(x)))", "list", ("sends", "[item[1].wait() for item in sends]")),
        ("works[i] = start(x)", "dict", ("works", "[handle.wait() for handle in works.values()]")),
        ("works[i] = start(x)", "list", ("works", "[handle.wait() for handle in works if handle is not None]")),
        ("works[i] = start(x)", "", ("", "")),
        (
            "works[i].append(start(x))",
            "dict",
            ("works", "[handle.wait() for several in works.values() for handle in several]"),
        ),
        ("works.append(Pending(start(x)))", "list", ("", "")),
        ("works().append(start(x))", "list", ("", "")),
        ("works.put(start(x))", "list", ("", "")),
        ("use(start(x))", "list", ("", "")),
    ],
)
def test_handles_in_a_container_are_waited_for_together(text, kind, expected):
    assert waits_for_all(text, kind) == expected


def test_container_in_returns_the_container_of_a_statement():
    assert [container_in(ast.parse(text).body[0]) for text in ("a.b[c] = d", "e.append(f)", "g(h)")] == ["a.b", "e", ""]
    assert container_in(None) == ""


def test_a_batch_of_messages_returns_several_handles():
    text = "works = dist.batch_isend_irecv(ops)"
    (statement,) = ast.parse(text).body
    assert wait_for("works", statement, 1, 9) == "[handle.wait() for handle in works]"
    assert returns_several(statement, 1, 9)
    assert not returns_several(statement, 1, 1)
    assert not returns_several(None, 1, 9)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("works.extend(batch_isend_irecv(ops))", "list", "[handle.wait() for handle in works]"),
        ("works += batch_isend_irecv(ops)", "list", "[handle.wait() for handle in works]"),
        (
            "works[i].extend(batch_isend_irecv(ops))",
            "list",
            "[handle.wait() for several in works for handle in several]",
        ),
        (
            "works[i] += batch_isend_irecv(ops)",
            "dict",
            "[handle.wait() for several in works.values() for handle in several]",
        ),
        ("hook(lambda p: works.extend(batch_isend_irecv(p)))", "list", "[handle.wait() for handle in works]"),
        ("works.append(batch_isend_irecv(ops))", "list", "[handle.wait() for item in works for handle in item]"),
        ("works.append((x, batch_isend_irecv(x)))", "list", "[handle.wait() for item in works for handle in item[1]]"),
        ("works[i] = batch_isend_irecv(x)", "dict", "[handle.wait() for item in works.values() for handle in item]"),
        (
            "works[i] = batch_isend_irecv(x)",
            "list",
            "[handle.wait() for item in works if item is not None for handle in item]",
        ),
        ("works.extend(start(batch_isend_irecv(ops)))", "list", ""),
    ],
)
def test_all_handles_of_batches_in_a_container_are_waited_for(text, kind, expected):
    (statement,) = ast.parse(text).body
    assert wait_for_all(statement, 1, text.index("batch") + 1, kind)[1] == expected


def test_all_handles_of_batches_in_a_comprehension_are_waited_for():
    text = "works = [batch_isend_irecv(ops) for ops in groups]"
    wait = waits(text, "works[...]", "batch_isend_irecv(")
    assert wait == "[handle.wait() for item in works for handle in item]"


def test_what_a_single_call_returns_does_not_extend_a_container():
    assert waits_for_all("works.extend(start(x))") == ("", "")


def test_a_batch_that_was_taken_out_again_is_waited_for():
    program = ast.parse("works.append(batch_isend_irecv(ops))\nbatch = works.pop()\nuse()").body
    wait = wait_for_all(program[0], 1, 14, "list", last_taken(program, "works", 3))
    assert wait == ("works", "[handle.wait() for handle in batch]")
    extended = ast.parse("works.extend(batch_isend_irecv(ops))\nwork = works.pop()\nuse()").body
    assert wait_for_all(extended[0], 1, 14, "list", last_taken(extended, "works", 3)) == ("", "")


@pytest.mark.parametrize(
    ("stored", "taken", "expected"),
    [
        ("works.append(start(x))", "work = works.pop()", "work.wait()"),
        ("works.append((start(x), x))", "w, t = works.popleft()", "w.wait()"),
        ("works.append((x, start(x)))", "item = works.pop(0)", "item[1].wait()"),
        ("works.append((start(x), x))", "_, t = works.popleft()", ""),
    ],
)
def test_a_handle_that_was_taken_out_again_is_waited_for(stored, taken, expected):
    program = ast.parse(f"{stored}\n{taken}\nuse()").body
    found = last_taken(program, "works", 3)
    assert found is program[1]
    assert wait_for_all(program[0], 1, stored.index("start(") + 1, "list", found)[1] == expected


@pytest.mark.parametrize("text", ["others.pop()", "x = others.pop()", "works.pop()", "x = works.get(0)"])
def test_nothing_else_takes_a_handle_out(text):
    assert last_taken(ast.parse(text).body, "works", 3) is None
    assert last_taken(ast.parse("x = works.pop()").body, "works", 1) is None  # comes later


def test_a_lambda_may_store_the_handle():
    text = "p.register_hook(lambda p: works.append(start(p.grad)))"
    (statement,) = ast.parse(text).body
    assert container_in(statement) == "works"
    wait = wait_for_all(statement, 1, text.index("start(") + 1, "list")
    assert wait == ("works", "[handle.wait() for handle in works]")
