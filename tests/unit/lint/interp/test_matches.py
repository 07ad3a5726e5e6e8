"""`match` statements as `if` statements."""

import ast

import pytest

from syncheck.lint.interp.matches import as_branches


def branches(*cases):
    source = "match mode:\n" + "".join(f"    case {case}:\n        pass\n" for case in cases)
    return "\n".join(map(ast.unparse, as_branches(ast.parse(source).body[0])))


@pytest.mark.parametrize(
    ("pattern", "test"),
    [
        ("'a'", "mode == 'a'"),
        ("Mode.FAST", "mode == Mode.FAST"),
        ("None", "mode is None"),
        ("1 | 2", "mode == 1 or mode == 2"),
        ("'a' as name", "mode == 'a'"),
        ("'a' if ready", "mode == 'a' and ready"),
        ("_ if ready", "ready"),
        ("[1, 2]", "whether the pattern matches"),
        ("Point(x=1)", "whether the pattern matches"),
    ],
)
def test_the_condition_of_a_pattern(pattern, test):
    assert branches(pattern).splitlines()[0] == f"if {test}:"


def test_the_cases_are_decided_in_order():
    assert branches("1", "2", "_") == "if mode == 1:\n    pass\nelif mode == 2:\n    pass\nelse:\n    pass"


@pytest.mark.parametrize(
    ("pattern", "bound"),
    [
        ("other", {"other": "mode"}),
        ("1 as one", {"one": "mode"}),
        ("[first, *rest]", {"first": "whether the pattern matches", "rest": "whether the pattern matches"}),
        ("{'k': value, **more}", {"value": "whether the pattern matches", "more": "whether the pattern matches"}),
        ("[1, _] as pair", {"pair": "mode"}),
    ],
)
def test_a_pattern_binds_names(pattern, bound):
    source = f"match mode:\n    case {pattern}:\n        pass\n"
    nodes = [inner for node in as_branches(ast.parse(source).body[0]) for inner in ast.walk(node)]
    found = {node.targets[0].id: ast.unparse(node.value) for node in nodes if isinstance(node, ast.Assign)}
    assert found == bound
