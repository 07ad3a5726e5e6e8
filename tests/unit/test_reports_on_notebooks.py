"""Findings in notebooks, in formats whose locations must be lines of files."""

import json

import pytest

from syncheck.commands.lint import LintRequest, lint
from syncheck.config.options import Options
from syncheck.report.cells import in_files
from syncheck.report.render import render

CELLS = [
    "import torch\nside = torch.cuda.Stream()",
    "x = torch.ones(4, device='cuda')\nwith torch.cuda.stream(side):\n    y = x * 2",
]


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in CELLS]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notes.ipynb").write_text(json.dumps(notebook))
    return lint(LintRequest((".",)))[0]


def test_a_finding_is_at_the_first_line_of_its_notebook(report):
    (finding,) = in_files(report).findings
    frame = finding.location.frame
    assert (frame.path, frame.line, frame.column) == ("notes.ipynb", 1, 0)
    assert finding.message.startswith("cell 2, line 3: stream `side`")
    assert finding.related[0].message.startswith("cell 2, line 1: ")


def test_findings_in_python_files_are_unchanged(report, tmp_path):
    (tmp_path / "notes.ipynb").unlink()
    (tmp_path / "train.py").write_text("\n".join(CELLS))
    report, _ = lint(LintRequest((".",)))
    assert report.findings
    assert in_files(report) == report


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("github", "file=notes.ipynb,line=1,"), ("gitlab", '"path": "notes.ipynb"'), ("sarif", '"uri": "notes.ipynb"')],
)
def test_paths_are_those_of_files(report, kind, expected):
    text = render(report, Options(output_format=kind), color=False)
    assert expected in text
    assert "cell 2, line 3: stream" in text
