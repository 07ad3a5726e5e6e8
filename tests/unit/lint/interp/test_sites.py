"""Call sites of a statically analyzed program."""

import ast

import pytest

from syncheck.findings import Finding
from syncheck.lint.interp.sites import UNKNOWN_LOCATION, SourceSites, span
from syncheck.lint.source_file import SourceFile
from syncheck.rules import useless_record_stream
from syncheck.rules.catalogue import CATALOGUE
from syncheck.rules.model import Severity

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
def sites():
    return SourceSites(FILE)


def node(text):
    return next(
        found for found in ast.walk(FILE.tree) if isinstance(found, ast.Call) and ast.unparse(found).startswith(text)
    )


def test_a_node_has_one_number_and_a_place(sites):
    site = sites.id_of(node("make"), "f")
    assert sites.id_of(node("make"), "f") == site == 1
    frame = sites.location(site).frame
    assert (frame.path, frame.line, frame.column, frame.end_line, frame.end_column) == ("program.py", 2, 9, 3, 16)
    assert (frame.function, frame.source) == ("f", "    x = make(1,")
    assert sites.location(sites.id_of(node("open"))).frame.function == "<module>"


def test_a_warning_is_about_a_node(sites):
    found = sites.warning(useless_record_stream.RULE, node("open"), "f", "drop it", tensor="`x`", reason="why")
    assert (found.rule.code, found.level, found.help) == ("SYN202", Severity.WARNING, "drop it")
    assert (found.location.frame.line, found.location.frame.function) == (5, "f")
    assert "`x`" in found.message
    assert "why" in found.message


def test_the_advice_of_a_warning_is_that_of_its_rule_by_default(sites):
    facts = {"tensor": "`x`", "reason": "why"}
    rule = useless_record_stream.RULE
    assert sites.warning(rule, node("open"), "f", **facts).help == Finding.of(rule, UNKNOWN_LOCATION, **facts).help


def test_the_excerpt_contains_the_surrounding_lines(sites):
    excerpt = sites.location(sites.id_of(node("make"))).excerpt
    assert [number for number, _ in excerpt] == [1, 2, 3, 4, 5]
    assert excerpt[0][1] == "def f():"


def test_columns_count_characters(sites):
    frame = sites.location(sites.id_of(node("Stream"))).frame
    assert SOURCE.splitlines()[3][frame.column - 1 :].startswith("Stream()")


def test_a_multi_line_method_call_begins_at_the_method(sites):
    assert span(node("x.wait"))[:2] == (7, 9)
    assert span(node("make"))[:2] == (2, 8)
    assert span(ast.Pass()) == (1, 0, 1, 0)


def test_a_new_object_is_named_by_its_assignment_target(sites):
    assert [sites.bound(sites.id_of(node(text))) for text in ("make", "Stream", "open", "x.wait")] == [
        "x", "größe", "file", "",
    ]  # fmt: skip
    assert sites.bound(0) == ""


def test_an_unknown_site_has_no_line(sites):
    assert sites.location(0) == UNKNOWN_LOCATION
    assert sites.lines_of(0)[0].number == 0
    assert sites.ignored_codes(0) == []


def test_a_site_has_the_lines_of_the_calls_that_led_to_it(sites):
    site = sites.id_of(node("make"), "f")
    sites.callers[site] = ((node("open"), "g"), (node("Stream"), ""))
    assert [(line.number, line.function) for line in sites.lines_of(site)] == [(2, "f"), (5, "g"), (4, "<module>")]
    assert sites.lines_of(site)[0].scopes.is_visible("x", 4)


def test_a_node_inside_an_ignore_block_is_a_different_site(sites):
    plain = sites.id_of(node("make"))
    sites.ignored_now = frozenset({"SYN101"})
    inside = sites.id_of(node("make"))
    assert inside != plain
    rules = {rule.code: rule for rule in CATALOGUE}
    assert sites.ignored(inside, rules["SYN101"])
    assert not sites.ignored(inside, rules["SYN102"])
    assert not sites.ignored(plain, rules["SYN101"])
    assert sites.ignored_codes(inside) == ["SYN101"]


def test_arguments_of_a_call_do_not_have_the_name_of_its_result():
    file = SourceFile("program.py", "scale = scaler(Stream(), by=Event())\nside = priority(1)\nboth = list(pair())\n")
    sites = SourceSites(file)
    calls = {ast.unparse(found): found for found in ast.walk(file.tree) if isinstance(found, ast.Call)}
    names = {text: sites.bound_directly(sites.id_of(found)) for text, found in calls.items()}
    assert (names["scaler(Stream(), by=Event())"], names["Stream()"], names["Event()"]) == ("scale", "", "")
    assert (names["priority(1)"], names["pair()"]) == ("side", "both")


def test_a_related_location_has_a_text(sites):
    call = FILE.tree.body[0].body[0].value
    location = sites.related(call, "f", "made here")
    assert (location.frame.line, location.frame.function, location.message) == (2, "f", "made here")
