"""Linting files and reporting unreadable ones."""

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from syncheck.config.options import Options
from syncheck.lint import analysis, engine, files
from syncheck.lint.cache import Cache
from syncheck.lint.engine import lint, lint_data, lint_source, report_of
from syncheck.lint.patterns import useless_waits

RACE = """\
import torch
s = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(s):
    y = x * 2
"""


def codes(result):
    return [(finding.rule.code, finding.location.frame.line) for finding in result.findings]


def test_a_text_is_linted():
    assert codes(lint_source("a.py", files.Text(RACE))) == [("SYN101", 5)]


@pytest.mark.parametrize(
    ("source", "problem"),
    [("def (", "line 1: invalid syntax"), ("x = " + "(" * 5000 + ")" * 5000, "too")],
)
def test_unparsable_source_is_a_problem(source, problem):
    assert problem in lint_source("a.py", files.Text(source)).problem


def test_an_internal_error_does_not_fail_the_run(monkeypatch):
    monkeypatch.setattr(analysis.Analysis, "findings", lambda self: 1 / 0)
    assert "please report it: ZeroDivisionError" in lint_source("a.py", files.Text(RACE)).problem


@pytest.mark.parametrize("error", [MemoryError, KeyError])
def test_a_failure_of_the_moment_is_not_taken_from_the_cache(folder, monkeypatch, error):
    def fail(self):
        raise error

    paths = [str(folder / "bad.py")]
    with monkeypatch.context() as failing:
        failing.setattr(analysis.Analysis, "findings", fail)
        assert lint(paths, Cache(folder / "cache"), lambda *_: None).results[paths[0]].problem
    (result,) = lint(paths, Cache(folder / "cache"), lambda *_: None).results.values()
    assert codes(result) == [("SYN101", 5)]


def test_comments_suppress_and_unused_ones_are_recorded():
    silenced = RACE.replace("x * 2", "x * 2  # syncheck: ignore[SYN101]")
    assert lint_source("a.py", files.Text(silenced)) == engine.Result()
    unused = lint_source("a.py", files.Text(silenced.replace("SYN101", "SYN102")))
    assert codes(unused) == [("SYN101", 5)]
    assert unused.unused[0][0] == 5


def test_an_irrelevant_file_is_not_parsed():
    assert lint_data("a.py", b"def (") == engine.Result()
    assert lint_data("a.py", b"import torch\nStream(\n").problem.startswith("line 2")
    assert "utf-8" in lint_data("a.py", b"# torch Stream(\n\n# \xff").problem


@pytest.mark.parametrize("data", [b"{bad torch.cuda", b'{"cells": 3, "torch": 1}'])
def test_a_damaged_notebook_that_mentions_torch_is_a_problem(data):
    assert lint_data("a.ipynb", data).problem.startswith("it is not a notebook")


def test_a_notebook_without_torch_is_not_parsed():
    assert lint_data("a.ipynb", b"{bad") == engine.NOTHING_TO_CHECK
    assert lint_data("a.ipynb", notebook("import torch")) == engine.NOTHING_TO_CHECK


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}).encode()


def test_places_in_a_notebook_have_cells_and_lines():
    first, second = RACE.split("with")
    result = lint_data("a.ipynb", notebook(first, "with" + second))
    (finding,) = result.findings
    assert (finding.location.frame.path, finding.location.frame.line) == ("a.ipynb:cell 2", 2)
    assert [number for number, _ in finding.location.excerpt] == [1, 2]
    assert {edit.path for edit in finding.fix.edits} <= {"a.ipynb:cell 1", "a.ipynb:cell 2"}


def test_a_finding_in_a_notebook_shows_the_lines_as_written():
    race = "side = torch.cuda.Stream()\n!nvidia-smi\nwith torch.cuda.stream(side):\n    %timeit -n 1 y = x * 2\n    %ls"
    setup = 'import torch\nx = torch.ones(4, device="cuda")'
    (finding,) = lint_data("a.ipynb", notebook(setup, race)).findings
    frame = finding.location.frame
    assert (frame.line, frame.source) == (4, "    %timeit -n 1 y = x * 2")
    assert frame.source[frame.column - 1 : frame.end_column - 1] == "x * 2"
    assert [text for _, text in finding.location.excerpt] == race.split("\n")[1:]


def test_the_column_in_a_loop_after_a_magic_is_that_of_the_cell():
    line = "    %time for _ in range(9): y = x * 2"
    setup = 'import torch\nx = torch.ones(4, device="cuda")\nside = torch.cuda.Stream()\n'
    cell = f"{setup}with torch.cuda.stream(side):\n{line}"
    (finding,) = lint_data("a.ipynb", notebook(cell)).findings
    frame = finding.location.frame
    assert frame.source == line
    assert line[frame.column - 1 : frame.end_column - 1] == "x * 2"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bad.py").write_text(RACE)
    (tmp_path / "good.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("import torch\nStream(\n")
    return tmp_path


def test_files_are_linted_and_results_cached(folder):
    paths = sorted(map(str, folder.glob("*.py")))
    progress = []
    outcome = lint(paths, Cache(folder / "cache"), lambda *done: progress.append(done))
    assert outcome.n_files == 3
    assert sorted(outcome.results) == [str(folder / "bad.py"), str(folder / "broken.py")]
    assert progress[-1] == (3, 3)
    again = lint(paths, Cache(folder / "cache"), lambda *done: progress.append("again"))
    assert again.results.keys() == outcome.results.keys()
    assert "again" not in progress


def test_an_unreadable_path_is_a_problem(tmp_path):
    outcome = lint([str(tmp_path), str(tmp_path / "gone.py")], Cache(None), lambda *_: None)
    assert [result.problem for result in outcome.results.values()] == [
        "the folder cannot be read", "No such file or directory",
    ]  # fmt: skip


def test_many_files_are_linted_by_several_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_FEW", 1)
    for number in range(3):
        (tmp_path / f"{number}.py").write_text(RACE)
    outcome = lint(sorted(map(str, tmp_path.glob("*.py"))), Cache(None), lambda *_: None)
    assert [codes(result) for result in outcome.results.values()] == [[("SYN101", 5)]] * 3


def test_large_inputs_are_linted_by_several_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_FEW", 1)
    monkeypatch.setattr(engine, "_MUCH", 10)
    own = []
    monkeypatch.setattr(engine, "lint_data", lambda *_args, **_options: own.append(True) or engine.Result())
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda: "spawn")
    for number in range(3):
        (tmp_path / f"{number}.py").write_text("x = 1 + 1\n")
    outcome = lint(sorted(map(str, tmp_path.glob("*.py"))), Cache(None), lambda *_: None)
    assert outcome.n_files == 3
    assert own == []  # in this process


@pytest.mark.parametrize("killed", [["3"], ["0", "4"], list("01234")])
def test_a_killed_worker_loses_only_the_file_that_it_checked(tmp_path, monkeypatch, killed):
    monkeypatch.setattr(engine, "_FEW", 1)
    monkeypatch.setattr(engine, "ProcessPoolExecutor", partial(ProcessPoolExecutor, mp_context=get_context("fork")))
    monkeypatch.setattr(
        engine,
        "lint_source",
        lambda path, *_, **__: os._exit(9) if Path(path).stem in killed else lint_source(path, *_),
    )
    paths = [tmp_path / f"{number}.py" for number in range(5)]
    for path in paths:
        path.write_text(RACE)
    results = lint(map(str, paths), Cache(None), lambda *_: None).results
    found = {path.stem: codes(results[str(path)]) for path in paths}
    assert found == {path.stem: [] if path.stem in killed else [("SYN101", 5)] for path in paths}
    problems = {path.stem for path in paths if "was killed" in results[str(path)].problem}
    assert problems == set(killed)


def test_files_with_something_to_check_are_distinguished(folder):
    paths = sorted(map(str, folder.glob("*.py")))
    assert [lint_data(path, Path(path).read_bytes()).is_checked for path in paths] == [True, True, False]


def test_a_report_respects_the_options_of_each_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    outcome = lint(sorted(map(str, folder.glob("*.py"))), Cache(None), lambda *_: None)
    report = report_of(outcome, lambda path: Options())
    assert [(f.location.frame.path, f.rule.code) for f in report.findings] == [("bad.py", "SYN101")]
    assert len(report.incomplete) == 1
    assert report.incomplete[0].startswith("broken.py: line 2")
    assert report.summary.files == 3
    assert report_of(outcome, lambda path: Options(ignore=("SYN101",))).findings == ()


def test_the_failure_of_one_check_loses_no_finding(monkeypatch):
    def fail(context):
        raise KeyError("x")

    monkeypatch.setattr(useless_waits, "can_matter", lambda source: True)
    monkeypatch.setattr(useless_waits, "findings", fail)
    result = lint_source("a.py", files.Text(RACE))
    assert codes(result) == [("SYN101", 5)]
    assert result.problem == "the check for useless waits failed, please report it: KeyError: 'x'"
