"""Call sites of a statically analyzed program."""

import ast

import pytest

from syncheck.lint.interp.sites import UNKNOWN_PLACE, Places, span
from syncheck.lint.source_file import SourceFile
from syncheck.rules.catalogue import CATALOGUE

SOURCE = """\
def f():
    x = make(1,
             2)
    größe = Stream(); y = x
    with open(name) as file: pass
    return (x
        .wait())
"""
FILE = SourceFile("program.py", SOURCE)


@pytest.fixture
def places():
    return Places(FILE)


def node(text):
    return next(
        found for found in ast.walk(FILE.tree) if isinstance(found, ast.Call) and ast.unparse(found).startswith(text)
    )


def test_a_node_has_one_number_and_a_place(places):
    site = places.id_of(node("make"), "f")
    assert places.id_of(node("make"), "f") == site == 1
    frame = places.place(site).frame
    assert (frame.path, frame.line, frame.column, frame.end_line, frame.end_column) == ("program.py", 2, 9, 3, 16)
    assert (frame.function, frame.source) == ("f", "    x = make(1,")
    assert places.place(places.id_of(node("open"))).frame.function == "<module>"


def test_the_excerpt_contains_the_surrounding_lines(places):
    excerpt = places.place(places.id_of(node("make"))).excerpt
    assert [number for number, _ in excerpt] == [1, 2, 3, 4, 5]
    assert excerpt[0][1] == "def f():"


def test_columns_count_characters(places):
    frame = places.place(places.id_of(node("Stream"))).frame
    assert SOURCE.splitlines()[3][frame.column - 1 :].startswith("Stream()")


def test_a_multi_line_method_call_begins_at_the_method(places):
    assert span(node("x.wait"))[:2] == (7, 9)
    assert span(node("make"))[:2] == (2, 8)
    assert span(ast.Pass()) == (1, 0, 1, 0)


def test_a_new_object_is_named_by_its_assignment_target(places):
    assert [places.bound(places.id_of(node(text))) for text in ("make", "Stream", "open", "x.wait")] == [
        "x", "größe", "file", "",
    ]  # fmt: skip
    assert places.bound(0) == ""


def test_an_unknown_site_has_no_line(places):
    assert places.place(0) == UNKNOWN_PLACE
    assert places.lines_of(0)[0].number == 0
    assert places.ignored_codes(0) == []


def test_a_site_has_the_lines_of_the_calls_that_led_to_it(places):
    site = places.id_of(node("make"), "f")
    places.callers[site] = ((node("open"), "g"), (node("Stream"), ""))
    assert [(line.number, line.function) for line in places.lines_of(site)] == [(2, "f"), (5, "g"), (4, "<module>")]
    assert places.lines_of(site)[0].scopes.is_visible("x", 4)


def test_a_node_inside_an_ignore_block_is_a_different_site(places):
    plain = places.id_of(node("make"))
    places.ignored_now = frozenset({"SYN101"})
    inside = places.id_of(node("make"))
    assert inside != plain
    rules = {rule.code: rule for rule in CATALOGUE}
    assert places.ignored(inside, rules["SYN101"])
    assert not places.ignored(inside, rules["SYN102"])
    assert not places.ignored(plain, rules["SYN101"])
    assert places.ignored_codes(inside) == ["SYN101"]


def test_arguments_of_a_call_do_not_have_the_name_of_its_result():
    file = SourceFile("program.py", "scale = scaler(Stream(), by=Event())\nside = priority(1)\nboth = list(pair())\n")
    places = Places(file)
    calls = {ast.unparse(found): found for found in ast.walk(file.tree) if isinstance(found, ast.Call)}
    names = {text: places.bound_directly(places.id_of(found)) for text, found in calls.items()}
    assert (names["scaler(Stream(), by=Event())"], names["Stream()"], names["Event()"]) == ("scale", "", "")
    assert (names["priority(1)"], names["pair()"]) == ("side", "both")
