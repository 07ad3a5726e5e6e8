"""Poor environments: no terminal or a narrow one, no UTF-8, odd file names, a package without its data files."""

import os
import pty
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).parents[2]
RACE = """import torch

side = torch.cuda.Stream()
größe = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    y = größe * 2
"""
ODD = "my folder/train: é `x`.py"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my folder").mkdir()
    (tmp_path / ODD).write_text(RACE, encoding="utf-8")
    return tmp_path


def run(*arguments, cwd, package=ROOT, **environment):
    command = [warm.PYTHON, "-m", "syncheck", *arguments]
    everything = {**os.environ, "PYTHONPATH": str(package), **environment}
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, timeout=200, env=everything)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.parametrize("command", [("lint",), ("run", "--backend", "sim")])
def test_a_path_may_contain_spaces_colons_and_accents(folder, command):
    status, text = run(*command, ODD, cwd=folder)
    assert status == 1
    assert f"--> {ODD}:6:9" in text
    assert "`größe`" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("lint",), ("run", "--backend", "sim", "--html", "x.html"), ("lint", "--output-format", "sarif")]
)
def test_lint_and_run_work_in_a_locale_without_utf8(folder, command):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    status, text = run(*command, ODD, cwd=folder, **ascii_only)
    assert status == 1, text
    assert "SYN101" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(("command", "status"), [(("lint",), 1), (("overlap", "--backend", "sim"), 0)])
def test_reports_are_written_in_the_encoding_of_the_locale(folder, command, status):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    found, text = run(*command, ODD, cwd=folder, **ascii_only)
    assert found == status, text
    text.encode("ascii")


def test_a_diff_is_written_in_utf8_whatever_the_locale_is(folder):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    status, text = run("lint", "--diff", ODD, cwd=folder, **ascii_only)
    assert status == 1, text
    assert "\n     y = größe * 2\n" in text


@pytest.mark.parametrize(
    "command", [("--help",), ("rules",), ("explain", "SYN101"), ("lint", "--help"), ("run", "-h"), ("config",)]
)
def test_other_commands_work_without_utf8(tmp_path, command):
    status, text = run(*command, cwd=tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert status == 0, text
    text.encode("ascii")


@pytest.mark.parametrize("command", ["lint .", "lint -", "run race.py", "replay run.trace", "rules", "config"])
def test_commands_say_that_the_working_directory_does_not_exist(tmp_path, command):
    (tmp_path / "gone").mkdir()
    words = f"cd gone && rmdir ../gone && exec {sys.executable} -m syncheck {command} < /dev/null"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        words, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200, env=environment
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: the working directory does not exist\n  hint: change to a folder that exists" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">/dev/null <&-", "2>&-"])
def test_lint_works_without_standard_streams(folder, closed):
    command = f"exec {sys.executable} -m syncheck lint '{ODD}' {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, check=False, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command", ["run --backend sim --fail-fast race.py", "run nothing.py", "lint --fix --diff race.py"]
)
def test_commands_work_with_a_closed_error_stream(tmp_path, command, closed):
    (tmp_path / "race.py").write_text(
        "import torch\ns = torch.cuda.Stream()\nx = torch.ones(8, device='cuda')\n"
        "with torch.cuda.stream(s):\n    y = x * 2\n"
    )
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m syncheck {command} {closed}"], cwd=tmp_path, capture_output=True,
        check=False, timeout=100, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert b"Traceback" not in done.stdout
    if "nothing" in command:
        assert done.returncode == 2
    elif closed == "2>&-":
        assert b"wait_stream" in done.stdout


def test_reports_fit_a_terminal_of_40_columns(folder):
    import fcntl
    import termios

    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb"}
    environment.pop("COLUMNS", None)
    (folder / "t.py").write_text(RACE, encoding="utf-8")
    command = [sys.executable, "-m", "syncheck", "lint", "t.py"]
    with subprocess.Popen(command, cwd=folder, stdin=inner, stdout=inner, stderr=inner, env=environment) as process:
        os.close(inner)
        shown = b""
        while True:
            try:
                part = os.read(outer, 4096)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            shown += part
    os.close(outer)
    lines = shown.decode().splitlines()
    assert process.returncode == 1
    assert "\x1b" not in shown.decode()
    prose = [line for line in lines if "`side.wait_stream" not in line]  # code to paste is not wrapped
    assert [line for line in prose if len(line) > 40] == []


def test_a_duplicate_setting_is_reported(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\ndevices = 2\ndevices = 3\n")
    status, text = run("lint", cwd=tmp_path)
    assert status == 2
    assert "at line 3" in text
    assert "a key is defined twice: remove one of the two" in text


def test_a_duplicate_table_is_reported(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\ndevices = 2\n[tool.syncheck]\nstacks = true\n")
    status, text = run("lint", cwd=tmp_path)
    assert status == 2
    assert "a table is defined twice: merge the two" in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it")
@pytest.mark.parametrize("command", [("rules",), ("explain", "SYN101"), ("config",), ("--help",)])
def test_a_full_disk_is_not_reported_as_a_bug(tmp_path, command):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [warm.PYTHON, "-m", "syncheck", *command], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False, timeout=200,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.decode() == "syncheck: error: cannot write to standard output: No space left on device\n"


@pytest.mark.slow
def test_a_package_without_its_data_files_still_works(folder):
    pytest.importorskip("jinja2")
    package = folder / "package"
    shutil.copytree(ROOT / "syncheck", package / "syncheck", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (package / "syncheck").rglob("*"):
        if path.is_file() and path.suffix != ".py":
            path.unlink()
    status, text = run("explain", "SYN101", cwd=folder, package=package)
    assert status == 0
    assert "Why it matters" in text
    assert "reinstall it" in text
    status, text = run("lint", ODD, cwd=folder, package=package)
    assert status == 1
    status, text = run("run", "--backend", "sim", "--html", "run.html", ODD, cwd=folder, package=package)
    assert status == 1
    words = " ".join(text.split())
    assert "page.html is missing" in words
    assert "reinstall it" in words
