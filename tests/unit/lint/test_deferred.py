"""Parsing a file without the bodies of its functions."""

import ast
import textwrap

import pytest

from syncheck.lint.deferred import KINDS, UncertainError, code_of, functions, parse, source_of, text_of

LONG = "    total = total + 1  # once more\n" * 8


def deferred_names(source):
    return [node.name for node in functions(parse(source).body) if text_of(node) is not None]


def dumped(tree):
    return ast.dump(tree, include_attributes=True)


def program(*lines, indent=""):
    return textwrap.indent("\n".join(lines) + "\n" + LONG, indent)


SOURCES = {
    "functions": program("def f(total):") + "\n\n# between\n" + program("async def g(total):", "    await total"),
    "methods": "class A:\n    x = 1\n\n" + program("@property", "def f(self, total=0):", indent="    ") + "    y = 2\n",
    "branches": "try:\n" + program("def f(total):", indent="    ") + "except ImportError:\n    pass\n",
    "a signature of several lines": program("def f(", '    a: "x" = {"k": 1},  # a colon:', ") -> dict[str, int]:"),
    "a string with lines of no indentation": program("def f(total):", '    text = """', "def g():", '    """'),
    "brackets with lines of no indentation": program("def f(total):", "    text = (", "1,", "    )"),
    "a line that is continued": program("def f(total):", "    total = 1 + \\", "2"),
    "an empty line that continues one": program("def f(total):") + "    return total \\\n\nx = 1\n",
    "comments of no indentation": program("def f(total):", "# outside", "    total = 0"),
    "a body that ends with a string": program("def f(total):") + '    return """a\nb"""  # end\n\nx = 1\n',
    "letters of several bytes": program("def f(total):") + "    return 'ä', 'ö'\nx = 1\n",
    "a body in the same line": "def f(): return 1\n" + program("class A:", "    total = 0"),
    "functions in functions": program("def f(total):", "    def g():", "        return total"),
    "quotation marks in strings": program("def f(total):", '    a = \'"""\'', '    b = "#"', "    c = r'\\''"),
    "a formatted string": program("def f(total):", "    a = f\"{total['a']}{{\"", "    b = f'{total}'"),
    "tabs": "def f(total):\n" + "\ttotal = total + 1\n" * 16,
    "a last line without an end": program("def f(total):") + "    return total",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_tree_equals_that_of_the_whole_file_including_positions(source):
    assert dumped(parse(source)) == dumped(ast.parse(source))


@pytest.mark.parametrize("name", ["functions", "methods", "branches", "a signature of several lines"])
def test_bodies_are_parsed_on_first_access(name):
    tree = parse(SOURCES[name])
    for function in functions(tree.body):
        assert type(function) in KINDS.values()
        text = text_of(function)
        assert text is not None
        assert "total" in text
        assert function.body
        assert type(function) in KINDS
        assert text_of(function) is None
        assert source_of(function) == text


def test_short_bodies_are_parsed_immediately():
    assert deferred_names("def f():\n    return 1\n") == []


@pytest.mark.parametrize(
    "before", ['x = f"{y["a"]}"\n', "if True:\n\tpass\n", "\f\n"], ids=["strings in strings", "tabs", "form feeds"]
)
def test_uncertain_sources_are_parsed_as_a_whole(before):
    source = before + program("def f(total):")
    try:
        ast.parse(source)
    except SyntaxError:  # strings in strings, before Python 3.12
        with pytest.raises(SyntaxError):
            parse(source)
    else:
        assert deferred_names(source) == []


def test_a_syntax_error_outside_of_functions_has_its_line():
    with pytest.raises(SyntaxError) as raised:
        parse(program("def f(total):") + "def g(\n")
    assert raised.value.lineno == 10


def test_a_syntax_error_in_a_body_is_raised_with_its_line_on_access():
    (function,) = functions(parse("\n" + program("def f(total):", "    x = = 1")).body)
    with pytest.raises(SyntaxError) as raised:
        function.body  # noqa: B018
    assert raised.value.lineno == 3


def test_code_of_removes_strings_and_comments():
    assert code_of("x = 'Stream'  # Event\ny = '''a\nb'''") == 'x = "         ' + " " * 7 + '\ny = "\n' + " " * 7


def test_a_formatted_string_with_nested_strings_is_uncertain():
    with pytest.raises(UncertainError):
        code_of('f"{x["')
    assert code_of('x("{")') == 'x("  )'


@pytest.mark.parametrize("filler", ["", "    # a comment that makes the body long enough to be deferred" * 4 + "\n"])
def test_annotated_assignments_of_functions_become_plain(filler):
    body = "    x: int = 1\n    self.y: list[int] = [x]\n    done: Event = new()\n    z: int\n    if x:\n"
    tree = parse(f"def f(self):\n{filler}{body}        k: int = 2\n    return x\n")
    kinds = [type(node).__name__ for node in ast.walk(tree.body[0]) if isinstance(node, ast.Assign | ast.AnnAssign)]
    assert sorted(kinds) == ["AnnAssign"] * 2 + ["Assign"] * 3
    assert ast.unparse(tree.body[0].body[0]) == "x = 1"


def test_fields_of_classes_keep_their_annotations():
    tree = parse("class A:\n    x: int = 1\ndef f():\n    class B:\n        y: int = 2\n    return B\n")
    assert len([node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]) == 2
