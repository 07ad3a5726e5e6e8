"""Edits of source code that preserve comments and formatting."""

import ast
import textwrap

import pytest

from syncheck.findings import Edit, EditKind
from syncheck.lint.fixes.codemods import apply, with_comments


def edited(source, *edits):
    made = [Edit(EditKind(kind), "a.py", line, column, code, *old) for kind, line, column, code, *old in edits]
    text, done = apply(textwrap.dedent(source), made)
    return text, len(done)


def test_a_statement_is_inserted_after_the_comments_of_the_next_one():
    source = "x = 1\n# why\ny = 2  # what\n"
    assert edited(source, ("insert-before", 3, 0, "s.wait()")) == ("x = 1\n# why\ns.wait()\ny = 2  # what\n", 1)


def test_a_statement_is_inserted_after_another_in_its_block():
    source = "def f():\n\tif a:\n\t\tx = g(1,\n\t\t      2)\n\treturn x\n"
    assert edited(source, ("insert-after", 4, 0, "s.wait()"))[0] == source.replace("2)\n", "2)\n\t\ts.wait()\n")


def test_a_compound_statement_is_inserted_too():
    code = "if w is not None: w.wait()"
    source = "def f():\n    w = g()  # c\n    return w\n"
    assert edited(source, ("insert-after", 2, 0, code))[0] == source.replace("# c\n", f"# c\n    {code}\n")
    source = "def f():\n    # c\n    return w\n"
    assert edited(source, ("insert-before", 3, 0, code))[0] == source.replace("# c\n", f"# c\n    {code}\n")


@pytest.mark.parametrize(
    ("source", "edit", "result"),
    [
        ("done.wait()  # c\n", ("replace-call", 1, 1, "done.synchronize()", "wait"), "done.synchronize()  # c\n"),
        ("f(done.wait(1))\n", ("replace-call", 1, 3, "done.synchronize()", "wait"), "f(done.synchronize())\n"),
        ("a.b.sync()\n", ("replace-call", 1, 1, "a.b.sync(1)", "sync"), "a.b.sync(1)\n"),
        ("start( )\n", ("append-call", 1, 1, ".wait()"), "start( ).wait()\n"),
        ("e = Event()\n", ("add-argument", 1, 5, "enable_timing=True"), "e = Event(enable_timing=True)\n"),
        ("e = Event(a=1)\n", ("add-argument", 1, 5, "enable_timing=True"), "e = Event(enable_timing=True, a=1)\n"),
        ("e = Event(b=0, a=1)\n", ("add-argument", 1, 5, "b=True"), "e = Event(b=True, a=1)\n"),
    ],
)
def test_calls_are_changed(source, edit, result):
    assert edited(source, edit) == (result, 1)


@pytest.mark.parametrize(
    ("source", "edit"),
    [
        ("done.wait()\n", ("replace-call", 1, 1, "done.synchronize()", "record")),  # no such call
        ("a.wait(), b.wait()\n", ("replace-call", 1, 0, "a.synchronize()", "wait")),  # ambiguous
        ("e = Event(True)\n", ("add-argument", 1, 5, "enable_timing=True")),  # passed by position
        ("\n\nx = 1\n", ("insert-before", 1, 0, "s.wait()")),  # there is no statement
    ],
)
def test_an_impossible_edit_is_not_applied(source, edit):
    assert edited(source, edit) == (source, 0)


@pytest.mark.parametrize("kind", EditKind)
@pytest.mark.parametrize("code", ["", "name", "f(", "x = 1", "a; b", "1 +", "f()()"])
def test_code_that_does_not_fit_its_kind_is_not_applied(kind, code):
    source = "done.wait()\n"
    text, n_done = edited(source, (kind, 1, 1, code, "wait"))
    ast.parse(text)
    assert (text != source) == n_done


@pytest.mark.parametrize("kind", ["insert-before", "insert-after"])
def test_nothing_is_inserted_at_an_elif(kind):
    source = "if a:\n    x = 1\nelif b:\n    x = 2\n"
    assert edited(source, (kind, 3, 0, "s.wait()")) == (source, 0)
    assert edited(source, (kind, 3, 0, "s.wait()"), (kind, 2, 0, "t.wait()"))[1] == 1


def test_the_column_selects_one_of_two_calls():
    edit = ("replace-call", 1, 11, "b.synchronize()", "wait")
    assert edited("a.wait(), b.wait()\n", edit)[0] == "a.wait(), b.synchronize()\n"
    chain = "(a\n  .wait())\n"
    assert edited(chain, ("replace-call", 2, 4, "a.synchronize()", "wait"))[0] == chain.replace("wait", "synchronize")


def test_several_edits_are_applied_and_equal_ones_once():
    source = "def f():\n    x = 1\n\ny = 2\n"
    edit = ("insert-before", 2, 0, "s.wait()")
    text, done = edited(source, edit, edit, ("insert-after", 4, 0, "t.wait()"))
    assert (text, done) == ("def f():\n    s.wait()\n    x = 1\n\ny = 2\nt.wait()\n", 2)


def test_line_endings_and_the_rest_of_the_file_are_unchanged():
    source = "a  =  1\r\n\r\n\r\ny = 2\r\nz=(3 , )\r\n"
    text, _ = apply(source, [Edit(EditKind.INSERT_BEFORE, "a.py", 4, 0, "s.wait()")])
    assert text.replace("s.wait()\r\n", "").replace("s.wait()\n", "") == source


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_edit_changes_nothing_else_whatever_ends_the_lines(end):
    source = f"x = 1  # one{end}y = 2{end}def f():{end}    z = 3  # three{end}w = 4{end}"
    text, done = apply(source, [Edit(EditKind.INSERT_BEFORE, "a.py", line, 0, "s.wait()") for line in (1, 4)])
    assert text.count("s.wait()") == len(done)
    assert [line for line in text.splitlines() if "s.wait()" not in line] == source.splitlines()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_comment_changes_no_code_whatever_ends_the_lines(end):
    source = f"x = 1  # one{end}y = 2{end}def f():{end}    z = 3  # three{end}w = 4{end}"
    text, number = with_comments(source, {1: ["ok"], 4: ["ok"]}, "# {0[0]}".format)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    assert text.count("# ok") == number


def test_invalid_python_is_rejected():
    with pytest.raises(SyntaxError):
        apply("def (", [])


# -- comments


@pytest.mark.parametrize(
    ("source", "line", "result"),
    [
        ("x = 1\n", 1, "x = 1  # ok\n"),
        ("x = 1  # why\n", 1, "x = 1  # why  # ok\n"),
        ("x = f(1,\n      2)\n", 1, "x = f(1,\n      2)  # ok\n"),
        ("with a:\n    x = 1\n", 1, "with a:  # ok\n    x = 1\n"),
        ("if a: x = 1\n", 1, "if a: x = 1  # ok\n"),
        ("match x:\n    case 1:\n        y = 1\n", 1, "match x:  # ok\n    case 1:\n        y = 1\n"),
        ("match f(\n    x\n):  # why\n    case 1: pass\n", 2, "match f(\n    x\n):  # why  # ok\n    case 1: pass\n"),
        ("\nx = 1\n", 1, "\nx = 1\n"),
    ],
)
def test_a_comment_is_added_at_the_end_of_a_statement(source, line, result):
    assert with_comments(source, {line: ["ok"]}, "# {0[0]}".format) == (result, result != source)


def test_a_statement_gets_one_comment_for_all_of_its_lines():
    source = "x = [\n    a,\n    b,\n]\ny = 1\n"
    words = {2: ["one", "two"], 3: ["two", "three"], 5: ["four"]}
    assert with_comments(source, words, lambda found: f"# {' '.join(found)}") == (
        "x = [\n    a,\n    b,\n]  # one three two\ny = 1  # four\n",
        2,
    )


@pytest.mark.parametrize("line", ["(v): int = 1", f"v = {' + '.join('1' * 400)}"])
def test_definitions_that_libcst_cannot_change_are_left_alone(line):
    source = f"def f():\n    {line}\n\n\ndef g():\n    pass\n"
    assert with_comments(source, {2: ["ok"], 6: ["ok"]}, "# {0[0]}".format) == (
        source.replace("pass", "pass  # ok"),
        1,
    )
    assert edited(source, ("insert-before", 2, 0, "s.wait()")) == (source, 0)
