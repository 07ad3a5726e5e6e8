"""Errors of the command line: each says what is wrong in the same words, before anything takes long."""

import pytest

from syncheck.api import check
from syncheck.errors import ConfigError
from tests import warm

PROGRAM = "print('it ran')\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def syncheck(*arguments, folder):
    return warm.run("syncheck", *map(str, arguments), folder=folder)


@pytest.mark.parametrize("option", ["--output", "--html", "--perfetto"])
def test_a_file_that_cannot_be_written_is_reported_before_the_program_runs(folder, option):
    done = syncheck("run", "--backend", "sim", option, "missing/report.txt", "train.py", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"invalid value for {option}: cannot write '{folder}/missing/report.txt': no such folder" in done.stderr


@pytest.mark.parametrize("command", ["run", "replay", "overlap", "merge", "lint"])
def test_every_command_checks_where_its_report_goes(folder, command):
    done = syncheck(command, "--output", folder, "train.py", folder=folder)
    assert done.returncode == 2
    assert "it is a folder" in done.stderr


def test_a_report_can_go_to_a_device(folder):
    assert syncheck("lint", "--output", "/dev/null", "train.py", folder=folder).returncode == 0
    done = syncheck("lint", "--output", "/dev/stdout", "train.py", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no findings" in done.stdout


@pytest.mark.parametrize("name", ["backend", "device_type"])
def test_a_misspelled_value_in_a_call_gets_a_suggestion(name):
    with pytest.raises(ConfigError, match=f"invalid value for {name}: 'sum'") as raised:
        check(**{name: "sum"}).__enter__()
    assert raised.value.hint in {"did you mean sim?", "choose from cuda, xpu"}
