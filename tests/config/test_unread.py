"""A misspelled setting is reported; an empty selection is an error."""

import gc
import os
import re
import sys

import pytest

from syncheck.cli import app
from syncheck.config import settings, unread
from syncheck.config.settings import layer_of
from tests.docs.blocks import ROOT


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    settings.forget()
    for name in [name for name in os.environ if name.startswith("SYNCHECK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield
    settings.forget()
    gc.unfreeze()  # the linter's process collects only between files
    gc.enable()


def call(monkeypatch, capfd, *words):
    monkeypatch.setattr(sys, "argv", ["syncheck", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return ended.value.code, *capfd.readouterr()


def in_tables(text, tmp_path):
    (tmp_path / "pyproject.toml").write_text(text)
    return unread.tables(str(tmp_path))


@pytest.mark.parametrize(
    "name", ["synchek", "synccheck", "sync-check", "syn_check", "Syncheck", "syncheckk", "sincheck"]
)
def test_a_misspelled_table_is_reported(name, tmp_path):
    found = in_tables(f"[tool.{name}]\ndevices = 4\n", tmp_path)
    path = tmp_path / "pyproject.toml"
    assert found == [(f"[tool.{name}] in {path} has no effect", "did you mean [tool.syncheck]?")]


def test_a_table_outside_of_tool_is_reported(tmp_path):
    found = in_tables("[syncheck]\ndevices = 4\n", tmp_path)
    assert found == [(f"[syncheck] in {tmp_path / 'pyproject.toml'} has no effect", "did you mean [tool.syncheck]?")]


@pytest.mark.parametrize(
    "text",
    [
        "[tool.syncheck]\ndevices = 4\n[tool.synchek]\n",
        "[tool.ruff]\n[tool.pytest.ini_options]\n[tool.check]\n[tool.synchronize]\n[tool.async]\n",
        "tool = 3\n",
        "[project]\nname = 'syncheck'\n",
        "[tool]\n",
    ],
)
def test_other_tables_are_not_reported(text, tmp_path):
    assert in_tables(text, tmp_path) == []


def test_tables_above_a_folder_are_reported_up_to_the_one_that_is_used(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.synchek]\n")
    (inner / "pyproject.toml").write_text("[tool.sincheck]\n")
    assert [message.split()[0] for message, _ in unread.tables(str(inner))] == ["[tool.sincheck]", "[tool.synchek]"]
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.syncheck]\n")
    settings.forget()
    assert [message.split()[0] for message, _ in unread.tables(str(inner))] == ["[tool.sincheck]"]


def test_each_file_above_many_folders_is_examined_once(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.synchek]\n")
    examined = []
    monkeypatch.setattr(unread, "_resembles", lambda name: name != "tool" and not examined.append(name))
    for name in "abc":
        assert len(unread.tables(str(tmp_path / name))) == 1
    assert examined == ["synchek"]


def test_the_file_that_the_command_line_names_is_the_only_one_examined(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.synchek]\n")
    other = tmp_path / "other" / "pyproject.toml"
    other.parent.mkdir()
    other.write_text("[tool.synccheck]\n")
    assert unread.tables(str(tmp_path), layer_of(isolated=True)) == []
    found = unread.tables(str(tmp_path), layer_of(config=other))
    assert found == [(f"[tool.synccheck] in {other} has no effect", "did you mean [tool.syncheck]?")]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("SYNCHECK_BAKEND", "unknown environment variable SYNCHECK_BAKEND", "did you mean SYNCHECK_BACKEND?"),
        ("SYNCHECK_WHATEVER", "unknown environment variable SYNCHECK_WHATEVER", "`syncheck config` lists the settings"),
        ("SYNCHECK_OUTPUT", "environment variable SYNCHECK_OUTPUT has no effect", "use the option --output"),
    ],
)
def test_a_variable_without_effect_is_reported(name, message, hint, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert unread.variables() == [(message, hint)]


def test_a_setting_that_is_not_text_is_an_error_and_not_reported_twice(monkeypatch, capfd):
    monkeypatch.setenv("SYNCHECK_PER_FILE_IGNORES", "a.py")
    status, _, err = call(monkeypatch, capfd, "lint")
    assert status == 2
    assert err == (
        "syncheck: error: SYNCHECK_PER_FILE_IGNORES: invalid value 'a.py'\n  hint: set it in pyproject.toml\n"
    )


def test_used_variables_are_not_reported(monkeypatch):
    for name in ("SYNCHECK_BACKEND", "SYNCHECK_CACHE_DIR", "MY_SYNCHECK_X"):
        monkeypatch.setenv(name, "sim")
    monkeypatch.setenv("SYNCHECK_EMPTY", "")
    assert unread.variables() == []


def test_every_variable_that_the_code_reads_is_known():
    texts = [path.read_text() for path in (ROOT / "syncheck").rglob("*.py") if path.name != "unread.py"]
    read = {name for text in texts for name in re.findall(r'"(SYNCHECK_[A-Z_]+)"', text)}
    assert read == unread.INTERNAL


def test_a_command_warns_and_keeps_its_status(monkeypatch, capfd, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.synchek]\n")
    (tmp_path / "a.py").write_text("")
    monkeypatch.setenv("SYNCHECK_BAKEND", "sim")
    status, out, err = call(monkeypatch, capfd, "lint", "--output-format", "json", "a.py")
    assert status == 0
    assert out.startswith("{")
    assert err == (
        f"syncheck: warning: [tool.synchek] in {tmp_path / 'pyproject.toml'} has no effect\n"
        "  hint: did you mean [tool.syncheck]?\n"
        "syncheck: warning: unknown environment variable SYNCHECK_BAKEND\n"
        "  hint: did you mean SYNCHECK_BACKEND?\n"
    )
    assert call(monkeypatch, capfd, "lint", "--quiet", "a.py")[0::2] == (0, "")
    assert "[tool.synchek]" in call(monkeypatch, capfd, "config")[2]


@pytest.mark.parametrize(("name", "value"), [("RANK", "1"), ("SYNCHECK_PARTS", "parts"), ("SYNCHECK_RERUN", "x")])
def test_other_ranks_and_reruns_do_not_repeat_a_warning(name, value, monkeypatch, capfd, tmp_path):
    (tmp_path / "a.py").write_text("")
    monkeypatch.setenv("SYNCHECK_BAKEND", "sim")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(name, value)
    assert call(monkeypatch, capfd, "lint", "a.py")[2] == ""


def test_the_linter_notes_misspelled_tables_of_other_folders(monkeypatch, capfd, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text("[tool.synchek]\n")
    (inner / "a.py").write_text("")
    status, out, _ = call(monkeypatch, capfd, "lint", ".")
    assert status == 0
    assert "note: [tool.synchek] in" in out
    assert "did you mean [tool.syncheck]?" in " ".join(out.split())


def test_pytest_warns(pytester, monkeypatch):
    pytester.makepyprojecttoml("[tool.synchek]\n")
    pytester.makepyfile("def test(): pass")
    monkeypatch.setenv("SYNCHECK_BAKEND", "sim")
    done = pytester.run(sys.executable, "-m", "pytest", "--syncheck", "--syncheck-backend=sim")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        ["*[[]tool.synchek] in * has no effect; did you mean [[]tool.syncheck]?", "*SYNCHECK_BAKEND; did you mean *"]
    )
    done = pytester.run(sys.executable, "-m", "pytest")
    done.stdout.no_fnmatch_line("*SYNCHECK_BAKEND*")


@pytest.mark.parametrize("option", ["--select", "--extend-select", "--ignore"])
@pytest.mark.parametrize("text", ["", " ", ","])
def test_an_empty_selection_is_an_error(option, text, monkeypatch, capfd):
    status, _, err = call(monkeypatch, capfd, "lint", f"{option}={text}")
    assert status == 2
    assert err == (
        f"syncheck: error: invalid value for {option}: {text!r} (no rule is named)\n"
        "  hint: write codes, prefixes (SYN1) or names, or omit the option\n"
    )


def test_an_empty_selection_is_an_error_in_pytest_too(pytester):
    done = pytester.run(sys.executable, "-m", "pytest", "--syncheck", "--syncheck-select=")
    assert done.ret == 4
    done.stderr.fnmatch_lines(["*invalid value for --syncheck-select: '' (no rule is named)*"])


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("SYNCHECK_SELECT", "")
    assert settings.options_in(command="lint").select == ()


@pytest.mark.parametrize("option", ["--models", "--rules"])
def test_an_empty_module_name_is_an_error(option, monkeypatch, capfd, tmp_path):
    (tmp_path / "a.py").write_text("")
    status, _, err = call(monkeypatch, capfd, "lint", f"{option}=", "a.py")
    assert status == 2
    assert err == (
        f"syncheck: error: invalid value for {option}: '' (no module is named)\n"
        "  hint: name a module, such as acme.gpu, or omit the option\n"
    )


def test_an_empty_list_in_a_file_is_the_default(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\nselect = []\n")
    assert settings.options_in(str(tmp_path), command="lint").select == ()


def test_a_trailing_comma_is_accepted():
    from syncheck.config.options import BY_NAME

    assert settings.value_of(BY_NAME["select"], ["SYN1,"]) == ("SYN1",)


@pytest.mark.parametrize("command", ["lint", "run"])
@pytest.mark.parametrize("option", ["--select", "--extend-select", "--ignore"])
def test_an_unknown_code_is_an_error_in_a_project_without_rules(command, option, monkeypatch, capfd, tmp_path):
    (tmp_path / "a.py").write_text("")
    status, _, err = call(monkeypatch, capfd, command, option, "SIN101", "a.py")
    assert (status, err) == (2, "syncheck: error: no rule matches 'SIN101'\n  hint: did you mean SYN101?\n")


def test_an_unknown_code_in_a_file_is_an_error_in_a_project_without_rules(monkeypatch, capfd, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nper-file-ignores = { "tests/*" = ["SIN101"] }\n')
    (tmp_path / "a.py").write_text("")
    for command in ("lint", "run", "replay"):
        assert call(monkeypatch, capfd, command, "a.py")[0::2] == (
            2,
            "syncheck: error: no rule matches 'SIN101'\n  hint: did you mean SYN101?\n",
        )


def test_codes_of_the_projects_rules_are_accepted_where_these_are_not_loaded(tmp_path):
    text = '[tool.syncheck]\nrules = ["acme.rules"]\nselect = ["ACME1"]\nignore = ["ACME2"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert settings.options_in(str(tmp_path), command="run").selected() == frozenset()
