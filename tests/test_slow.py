"""The list of slow tests."""

import ast
from pathlib import Path

from tests import slow

ROOT = Path(__file__).parents[1]
TABLE = """
============ slowest durations ============
1.20s call     tests/test_a.py::test_slow[x - y]
0.60s setup    tests/test_a.py::test_two_parts
0.60s call     tests/test_a.py::test_two_parts
0.99s call     tests/test_a.py::test_fast
rc 0
"""


def test_the_times_of_a_test_are_added_up():
    assert slow.names_of(TABLE.splitlines()) == ["tests/test_a.py::test_slow[x - y]", "tests/test_a.py::test_two_parts"]


def test_the_listed_functions_exist():
    files: dict[str, set[str]] = {}
    for name in slow.listed():
        file, *parts = name.split("[")[0].split("::")
        files.setdefault(file, set()).add(parts[-1])
    for file, functions in files.items():
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert functions <= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, file


def test_the_list_is_sorted_and_short():
    lines = slow.FILE.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert 0 < len(lines) < 1000
