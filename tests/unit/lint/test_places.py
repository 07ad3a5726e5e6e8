"""Where findings are in the cells of a notebook."""

import json

import pytest

from syncheck.lint import files
from syncheck.lint.engine import lint_data

CELLS = [
    "import torch\nside = torch.cuda.Stream()\n",
    "x = torch.ones(10, device='cuda')\n",
    "with torch.cuda.stream(side):\n    y = x * 2\n",
    "z = y + 1\n",
]


@pytest.fixture
def findings():
    cells = [{"cell_type": "markdown", "source": "# text"}]
    cells += [{"cell_type": "code", "source": text} for text in CELLS]
    return lint_data("n.ipynb", json.dumps({"cells": cells}).encode()).findings


def test_advice_names_the_lines_of_the_cell(findings):
    first, second = findings
    assert (first.place.frame.path, first.place.frame.line) == ("n.ipynb:cell 4", 2)
    assert first.help == "add `side.wait_stream(torch.cuda.default_stream())` before line 2"
    assert second.help == "add `torch.cuda.current_stream().wait_stream(side)` before line 1"


def test_lines_of_other_cells_name_the_cell():
    cells = [*CELLS[:1], "start = torch.cuda.Event()\n", "end = torch.cuda.Event()\nstart.record()\nend.record()\n",
             "torch.cuda.synchronize()\nprint(start.elapsed_time(end))\n"]  # fmt: skip
    source = json.dumps({"cells": [{"cell_type": "code", "source": text} for text in cells]}).encode()
    (finding,) = lint_data("n.ipynb", source).findings
    assert "the call at line 1 of cell 2, and" in finding.help
    assert finding.help.endswith("the call at line 1 of cell 3")


def test_excerpts_stay_in_their_cell(findings):
    for finding in findings:
        for place in (finding.place, *finding.related):
            cell = CELLS[int(place.frame.path.partition(":cell ")[2]) - 2]
            assert [text for _, text in place.excerpt] == cell.splitlines()


def test_other_files_have_no_cells():
    assert files.decode(b"x = 1\n", "a.py").cells == ()
