"""Source text of the program's files."""

import ast
import linecache
import warnings

import pytest

from syncheck.instrument.sites import SiteTable
from syncheck.source.text import parse_expression, parse_module, source_line, source_lines, source_text


@pytest.fixture
def file(tmp_path):
    (tmp_path / "train.py").write_text("x = 1\ny = 2\n")
    return str(tmp_path / "train.py")


@pytest.fixture
def command(monkeypatch):
    """Register the source of `python -c` as Python 3.13 does."""
    source = "first()\nsecond()\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(source), None, source.splitlines(keepends=True), "<string>"))


def test_the_text_of_a_file(file):
    assert source_lines(file) == ["x = 1\n", "y = 2\n"]
    assert source_text(file) == "x = 1\ny = 2\n"
    assert [source_line(file, number) for number in range(4)] == ["", "x = 1", "y = 2", ""]


def test_a_file_that_cannot_be_read_has_no_text(tmp_path):
    assert source_text(str(tmp_path / "missing.py")) == source_line(str(tmp_path / "missing.py"), 1) == ""


@pytest.mark.usefixtures("command")
def test_code_compiled_from_a_string_has_no_source():
    assert source_text("<string>") == source_line("<string>", 1) == ""


@pytest.mark.usefixtures("command")
def test_a_call_site_in_such_code_shows_no_line_of_another_source():
    sites, found = SiteTable(), []
    exec("def f():\n    found.append(sites.here())\nf()", {"sites": sites, "found": found})
    location = sites.location(found[0])
    assert location.frame.source == ""
    assert location.excerpt == ()
    assert sites.lines_of(found[0])[0].statement is None


@pytest.mark.filterwarnings("error")
def test_warnings_about_a_text_do_not_prevent_its_parsing():
    text = r'"\d"'
    with pytest.raises(SyntaxError, match="invalid escape"):
        ast.parse(text)
    assert ast.unparse(parse_expression(text)) == r"'\\d'"
    assert ast.unparse(parse_module(f"x = {text}")) == r"x = '\\d'"


def test_warnings_about_a_text_are_not_shown():
    with warnings.catch_warnings(record=True, action="always") as shown:
        parse_module(r'x = "\d"')
    assert shown == []
