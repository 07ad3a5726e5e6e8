"""A linted file."""

import pytest

from syncheck.lint.source_file import SourceFile

SOURCE = "import torch.cuda as tc, os.path\nfrom . import a\nfrom ..b import c as d\r\ns = tc.Stream(\n    0)\nt = 1\n"


def test_lines_have_no_line_endings():
    file = SourceFile("a.py", SOURCE)
    assert file.lines_with_ends[2] == "from ..b import c as d\r\n"
    assert file.lines[2:4] == ["from ..b import c as d", "s = tc.Stream("]


def test_invalid_python_is_rejected():
    with pytest.raises(SyntaxError):
        SourceFile("a.py", "def f(:")


def test_imported_names_map_to_full_names():
    assert SourceFile("a.py", SOURCE + "def f():\n    import x.y\n").imports == {
        "tc": "torch.cuda", "os": "os", "a": ".a", "d": "..b.c", "x": "x",
    }  # fmt: skip


def test_bindings_find_the_target_at_a_position():
    bindings = SourceFile("a.py", SOURCE).bindings
    assert bindings.target(4, 5) == "s"
    assert (bindings.target(6, 4), bindings.target(1, 1)) == ("t", "")


def test_a_place_includes_the_surrounding_lines():
    location = SourceFile("a.py", "\n".join("abcdefghij")).location(5, 1, 5, 2, "")
    assert (location.frame.path, location.frame.line, location.frame.function, location.frame.source) == (
        "a.py",
        5,
        "<module>",
        "e",
    )
    assert [text for _, text in location.excerpt] == list("cdefg")


def test_the_excerpt_is_limited_at_the_edges_of_a_file():
    file = SourceFile("a.py", "\n".join("abcdefghij"))
    assert [n for n, _ in file.location(1, 1, 1, 2, "f").excerpt] == [1, 2, 3]
    assert [n for n, _ in file.location(10, 1, 10, 2, "f").excerpt] == [8, 9, 10]
    assert [n for n, _ in file.location(2, 1, 10, 2, "f").excerpt] == list(range(1, 9))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with torch.cuda.stream(s): pass", (True, False, False)),
        ("torch.cuda.StreamContext(s)", (True, False, False)),
        ("dist.all_reduce(x, async_op=True)", (False, True, False)), ("dist.isend(x, 1)", (False, True, False)),
        ("i = (i + 1) % len(slots)", (False, False, True)), ("self.i % self.depth", (False, False, True)),
        ("print('%s' % self.name)", (False, False, False)), ("x = 1", (False, False, False)),
    ],
)  # fmt: skip
def test_the_text_of_a_file_shows_what_it_may_contain(text, expected):
    file = SourceFile("program.py", text)
    assert (file.enters_streams, file.has_asynchronous_collectives, file.has_ring) == expected
