"""Notebooks are changed in their cells, and everything that is not Python is kept."""

import codecs
import json

import pytest

from syncheck.config.options import Options
from syncheck.lint.fixes import documents
from syncheck.lint.fixes.changes import change

CELLS = [
    ["%matplotlib inline\n", "import torch\n", "side = torch.cuda.Stream()"],
    'x = torch.ones(10, device="cuda")\nwith torch.cuda.stream(side):\n    y = x * 2',
    [],
    ["# the sum\n", "z = y + 1\n", "!ls\n", "if z:\n", "    !rm ü\n", "n = !ls | wc\n"],
    "%%bash\n\nls (",
]
FIXED = [
    CELLS[0],
    'x = torch.ones(10, device="cuda")\nside.wait_stream(torch.cuda.current_stream())\n'
    "with torch.cuda.stream(side):\n    y = x * 2",
    [],
    ["# the sum\n", "torch.cuda.current_stream().wait_stream(side)\n", *CELLS[3][1:]],
    CELLS[4],
]


def written(cells, **kwargs):
    listed = [{"cell_type": "code", "metadata": {"n": 1}, "source": source} for source in cells]
    listed.insert(1, {"cell_type": "markdown", "metadata": {}, "source": ["# text"]})
    return json.dumps({"cells": listed, "nbformat": 4}, **kwargs)


def changed(path, kind):
    return change([str(path)], kind, lambda _: Options(), unsafe=False)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "n.ipynb"
    path.write_text(written(CELLS, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def test_cells_are_fixed_and_everything_else_is_kept(path):
    assert len(changed(path, "fix").fixed) == 2
    assert path.read_text(encoding="utf-8") == written(FIXED, indent=1, ensure_ascii=False) + "\n"


def in_style(text, style):
    return codecs.BOM_UTF8 * ("mark" in style) + text.replace("\n", "\r\n" if "crlf" in style else "\n").encode()


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("style", ["", "mark", "crlf", "mark crlf"])
def test_a_file_keeps_its_byte_order_mark_line_endings_and_escapes(path, style, is_ascii):
    path.write_bytes(in_style(written(CELLS, indent=1, ensure_ascii=is_ascii) + "\n", style))
    assert len(changed(path, "fix").fixed) == 2
    assert path.read_bytes() == in_style(written(FIXED, indent=1, ensure_ascii=is_ascii) + "\n", style)


def test_comments_like_those_between_cells_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = ["# %% cell 1\n" + "".join(CELLS[0]), f"# %% cell 7\n{CELLS[1]}", "s = '\u2028'\n!pip install \\\n  x"]
    path = tmp_path / "n.ipynb"
    path.write_text(written(cells), encoding="utf-8")
    assert len(changed(path, "fix").fixed) == 1
    assert path.read_text(encoding="utf-8") == written([cells[0], f"# %% cell 7\n{FIXED[1]}", cells[2]])


def test_comments_are_added_and_removed(path):
    before = json.loads(path.read_text(encoding="utf-8"))
    assert changed(path, "ignore").n_comments == 2
    assert "z = y + 1  # syncheck: ignore[SYN101]\n" in json.loads(path.read_text())["cells"][4]["source"]
    assert changed(path, "fix").fixed == []
    text = path.read_text(encoding="utf-8").replace("x * 2", "x")
    path.write_text(text.replace("y = x ", "y = 2 ").replace("with torch.cuda.stream(side)", "if side"))
    assert changed(path, "remove").n_comments == 2
    assert json.loads(path.read_text())["cells"][4]["source"][:2] == before["cells"][4]["source"][:2]


MEASURED = [
    "import torch\nside, done = torch.cuda.Stream(), torch.cuda.Event()",
    'x = torch.ones(10, device="cuda")\nwith torch.cuda.stream(side):\n    %timeit -n 1 y = x * 2\n    !ls',
    "if True:\n    %time z = y + 1\n%time for _ in range(2): z = y + 1",
]


def test_lines_after_a_magic_are_kept_when_they_are_fixed(path):
    path.write_text(written(MEASURED))
    assert len(changed(path, "fix").fixed) == 2
    first, second, third = (cell["source"] for cell in json.loads(path.read_text())["cells"] if "n" in cell["metadata"])
    assert first == MEASURED[0]
    wait = "side.wait_stream(torch.cuda.current_stream())"
    assert second == MEASURED[1].replace("with torch", f"{wait}\nwith torch")
    assert third == MEASURED[2].replace("    %time", "    torch.cuda.current_stream().wait_stream(side)\n    %time")


def test_comments_are_added_after_a_magic(path):
    path.write_text(written(MEASURED))
    assert changed(path, "ignore").n_comments == 2
    *_, second, third = (cell["source"] for cell in json.loads(path.read_text())["cells"])
    comment = "  # syncheck: ignore[SYN101]"
    assert second == MEASURED[1].replace("x * 2", f"x * 2{comment}")
    assert third == MEASURED[2].replace("y + 1\n%", f"y + 1{comment}\n%")
    path.write_text(path.read_text().replace("x * 2", "2").replace("= y + 1 ", "= 1 "))
    assert changed(path, "remove").n_comments == 2
    assert "ignore" not in path.read_text()


def test_a_diff_shows_cells(path):
    before = path.read_bytes()
    diff = changed(path, "diff").diff
    assert "+side.wait_stream(torch.cuda.current_stream())\n" in diff
    assert " # %% cell 5\n # the sum\n+torch.cuda.current_stream().wait_stream(side)\n" in diff
    assert " !ls\n" in diff
    assert path.read_bytes() == before


def test_a_single_line_notebook_stays_on_one_line(path):
    path.write_text(written(CELLS), encoding="utf-8")
    changed(path, "fix")
    assert "\n" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", ["", "[]", '{"cells": 3}', '{"cells": [{"cell_type": "code"}]}', "torch.cuda"])
def test_an_invalid_notebook_is_left_alone(path, content):
    path.write_text(content)
    assert documents.read(str(path)) is None
