"""`--verbose` reports on standard error what is read, skipped and chosen, and why."""

import re

import pytest

from syncheck.config import settings
from tests import warm

CLEAN = """\
import torch
side, x = torch.cuda.Stream(), torch.ones(2, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    print((x * 2).sum().item())
"""


@pytest.fixture
def folder(tmp_path):
    settings.forget()
    (tmp_path / ".gitignore").write_text("made.py\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nexclude = ["old.py"]\n')
    for name in ("train.py", "made.py", "old.py", "broken.py"):
        (tmp_path / name).write_text(CLEAN)
    (tmp_path / "broken.py").write_text(CLEAN + "torch.cuda.Stream(\n")
    (tmp_path / "plain.py").write_text("print('no GPU')\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "copy.py").write_text(CLEAN)
    return tmp_path


def lines(done):
    return [line.removeprefix("syncheck: ") for line in done.stderr.splitlines() if line.startswith("syncheck: ")]


def test_lint_reports_what_became_of_each_file_and_the_origin_of_settings(folder):
    said = lines(warm.run("syncheck", "lint", "-v", folder=folder))
    assert "checked train.py" in said
    assert "nothing to check in plain.py" in said
    assert "could not check broken.py" in said
    assert "skipped old.py: the setting `exclude`" in said
    assert any(re.fullmatch(r"skipped made\.py: ignored by .*\.gitignore", line) for line in said)
    assert any(line.startswith("skipped build: ") for line in said)
    assert f"settings of 3 files: {folder / 'pyproject.toml'}" in said
    assert any(re.fullmatch(r"check of 3 files: \d+\.\d\d s", line) for line in said)
    again = lines(warm.run("syncheck", "lint", "-v", folder=folder))
    assert "took from the cache train.py" in again


def test_an_excluded_file_named_explicitly_is_reported(folder):
    said = lines(warm.run("syncheck", "lint", "-v", "--force-exclude", "old.py", folder=folder))
    assert "skipped old.py: the setting `exclude`" in said


def test_verbose_does_not_change_the_report_of_lint(folder):
    loud, quiet = (
        warm.run("syncheck", "lint", *more, "--no-cache", "plain.py", folder=folder) for more in (["-v"], [])
    )
    assert re.sub(r"\d+\.\d s", "", loud.stdout) == re.sub(r"\d+\.\d s", "", quiet.stdout)
    assert not quiet.stderr


def test_run_reports_the_backend_with_its_reason_and_the_origin_of_settings(folder):
    done = warm.run("syncheck", "run", "--verbose", "train.py", folder=folder)
    said = lines(done)
    assert done.returncode == 0, done.stderr
    assert f"settings: {folder / 'pyproject.toml'}" in said
    assert f"program: {folder / 'train.py'}" in said
    assert any(line.startswith("backend: 2 simulated GPUs, because ") for line in said)
    assert any(re.fullmatch(r"program, including the check: \d+\.\d\d s", line) for line in said)
    assert done.stdout == "4.0\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--backend", "sim"], "backend: 2 simulated GPUs, as set by backend = sim"),
        (["--device-type", "xpu"], "backend: 2 simulated XPUs, because GPUs of torch.xpu are always simulated"),
    ],
)
def test_the_reason_for_a_backend_is_the_setting_that_chose_it(folder, options, why):
    assert why in lines(warm.run("syncheck", "run", "-v", "--isolated", *options, "plain.py", folder=folder))


def test_without_files_settings_are_the_defaults(folder):
    said = lines(warm.run("syncheck", "overlap", "-v", "--isolated", "--backend", "sim", "train.py", folder=folder))
    assert "settings: only the defaults and the command line" in said
