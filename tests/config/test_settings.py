"""Every setting can be given in every supported way, with the same meaning."""

import json
import os
from pathlib import Path

import pytest

from syncheck.commands.doctor import effective_settings
from syncheck.config import settings
from syncheck.config.options import BY_NAME, SETTINGS, Options, settings_of
from syncheck.errors import ConfigError
from syncheck.rules.model import Severity
from syncheck.witness.schedule import Schedule

SCHEDULE = str(Schedule(7, seed=3))

# setting -> (TOML text, command-line value, parsed value)
SAMPLES = {
    "select": ('["SYN1", "SYN201"]', ["SYN1,SYN201"], ("SYN1", "SYN201")),
    "extend_select": ('["unordered-read"]', ["unordered-read"], ("unordered-read",)),
    "ignore": ('["SYN303"]', ["SYN303"], ("SYN303",)),
    "per_file_ignores": ('{ "tests/*" = ["SYN7"] }', None, (("tests/*", ("SYN7",)),)),
    "rules": ('["acme.rules"]', ["acme.rules"], ("acme.rules",)),
    "models": ('["acme.gpu"]', ["acme.gpu"], ("acme.gpu",)),
    "third_party": ('"off"', "off", "off"),
    "fail_on": ('"error"', "error", Severity.ERROR),
    "max_findings": ("20", "20", 20),
    "output_format": ('"json"', "json", "json"),
    "output": (None, "report.json", Path.cwd() / "report.json"),
    "color": (None, "always", "always"),
    "quiet": (None, True, True),
    "verbose": (None, True, True),
    "exit_zero": (None, True, True),
    "strict": ("true", True, True),
    "show_fixes": ("true", True, True),
    "stacks": ("true", True, True),
    "baseline": ('"known.json"', "known.json", Path.cwd() / "known.json"),
    "write_baseline": (None, True, True),
    "backend": ('"sim"', "sim", "sim"),
    "recorder": ('"python"', "python", "python"),
    "devices": ("4", "4", 4),
    "device_type": ('"xpu"', "xpu", "xpu"),
    "fail_fast": ("true", True, True),
    "trace": (None, "run.trace", Path.cwd() / "run.trace"),
    "trace_size": ('"16MiB"', "16MiB", 16 << 20),
    "times": ("true", True, True),
    "timed_operators": ("2000", "2000", 2000),
    "perfetto": (None, "timeline.json", Path.cwd() / "timeline.json"),
    "html": (None, "timeline.html", Path.cwd() / "timeline.html"),
    "steps": (None, "3:5", (3, 5)),
    "budget": ('"5%"', "5%", 0.05),
    "witness": ("true", True, True),
    "confirm": (None, True, True),
    "schedule": (None, SCHEDULE, SCHEDULE),
    "schedules": ("20", "20", 20),
    "seed": ("1", "1", 1),
    "proof_limit": ("60", "60", 60.0),
    "nproc": (None, "2", 2),
    "ranks_dir": ('"/shared"', "/shared", Path("/shared")),
    "hang_timeout": ("300", "300", 300.0),
    "exclude": ('["a/", "b"]', ["a/", "b"], ("a/", "b")),
    "force_exclude": ("true", True, True),
    "respect_gitignore": ("false", False, False),
    "config": (None, "other.toml", Path.cwd() / "other.toml"),
    "isolated": (None, True, True),
}
IN_FILE = [setting.name for setting in SETTINGS if setting.is_in_file]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    settings.forget()
    for name in [name for name in os.environ if name.startswith("SYNCHECK_")]:
        monkeypatch.delenv(name)
    yield
    settings.forget()


def command_of(name):
    return next(setting for setting in SETTINGS if setting.name == name).commands[0]


def test_every_setting_has_a_sample():
    assert [setting.name for setting in SETTINGS] == list(SAMPLES)


@pytest.mark.parametrize("name", IN_FILE)
def test_each_setting_can_be_given_in_a_file(name, tmp_path, monkeypatch):
    text, _, value = SAMPLES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool.syncheck]\n{name.replace('_', '-')} = {text}\n")
    found = getattr(settings.options_in(command=command_of(name)), name)
    assert found == (tmp_path / "known.json" if name == "baseline" else value)


@pytest.mark.parametrize("name", [name for name, (_, words, _) in SAMPLES.items() if words is not None])
def test_each_setting_can_be_given_on_the_command_line(name, tmp_path):
    _, words, value = SAMPLES[name]
    setting = next(setting for setting in SETTINGS if setting.name == name)
    layer = settings.layer_of(**{name: settings.value_of(setting, words)})
    if name == "config":
        with pytest.raises(ConfigError, match=r"other\.toml"):
            settings.options_in(str(tmp_path), layer, command="run")
    else:
        assert getattr(settings.options_in(str(tmp_path), layer, command=command_of(name)), name) == value


@pytest.mark.parametrize("name", [name for name in IN_FILE if SAMPLES[name][1] is not None])
def test_environment_variables_override_a_file(name, tmp_path, monkeypatch):
    _, words, value = SAMPLES[name]
    word = ",".join(words) if name in {"select", "extend_select", "ignore", "rules", "models"} else words
    word = words[0] if name == "exclude" else str(word)
    monkeypatch.setenv(f"SYNCHECK_{name.upper()}", word)
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\ndevices = 7\nfail-on = 'advice'\n")
    found = getattr(settings.options_in(str(tmp_path), command=command_of(name)), name)
    assert found == (("a/",) if name == "exclude" else value)


def test_an_error_names_the_invalid_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNCHECK_DEVICES", "many")
    with pytest.raises(ConfigError, match="SYNCHECK_DEVICES: invalid value 'many'"):
        settings.options_in(str(tmp_path), command="run")


def test_the_command_line_overrides_a_file_and_extends_its_lists(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\ndevices = 7\nignore = ["SYN1"]\nselect = ["SYN2"]\n')
    layer = settings.layer_of(devices=3, ignore=("SYN3",), select=("SYN4",))
    options = settings.options_in(str(tmp_path), layer, command="run")
    assert (options.devices, options.ignore, options.select) == (3, ("SYN1", "SYN3"), ("SYN4",))


def test_a_command_ignores_settings_of_other_commands(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\ndevices = 7\nexclude = ["x"]\n')
    assert settings.options_in(str(tmp_path), command="lint").devices == Options().devices
    assert settings.options_in(str(tmp_path), command="run").exclude == ()


def test_isolated_reads_no_file_and_config_reads_the_given_file(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.syncheck]\ndevices = 7\n")
    other = tmp_path / "other.toml"
    other.write_text("devices = 5\nbaseline = 'known.json'\n")
    assert settings.options_in(str(tmp_path), (("isolated", True),), command="run").devices == Options().devices
    found = settings.options_in("/", (("config", other),), command="run")
    assert (found.devices, found.baseline, found.root) == (5, tmp_path / "known.json", str(tmp_path))
    named = settings.options_in("/", (("config", tmp_path / "pyproject.toml"),), command="run")
    assert named.devices == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devices = 4\ndevices = 5", "cannot read"),
        ("devices = true", "invalid value for devices"),
        ("devices = 65", "write, for example, devices = 4"),
        ("hang-timeout = nan", "invalid value for hang-timeout"),
        ("hang-timeout = inf", "invalid value for hang-timeout"),
        ("hang-timeout = -1", "invalid value for hang-timeout"),
        ('baseline = ""', "invalid value for baseline"),
        ('select = ["SYN1O1"]', "did you mean SYN101?"),
        ("stacks = 1", "invalid value for stacks"),
        ("devises = 1", "did you mean devices?"),
        ('steps = "1:2"', "only the command line can set it: --steps"),
        ("per_file_ignores = {}", "did you mean per-file-ignores?"),
    ],
)
def test_an_error_in_a_file_names_the_file_and_suggests_a_fix(text, words, tmp_path):
    (tmp_path / "pyproject.toml").write_text(f"[tool.syncheck]\n{text}\n")
    with pytest.raises(ConfigError) as error:
        settings.options_in(str(tmp_path), command="run")
    assert words in f"{error.value} {error.value.hint}"
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("header", ["[tool.syncheck]", "[syncheck]"])
def test_a_file_that_is_the_table_has_no_header(header, tmp_path):
    path = tmp_path / "syncheck.toml"
    path.write_text(f"{header}\ndevices = 2\n")
    with pytest.raises(ConfigError) as error:
        settings.options_in(str(tmp_path), settings.layer_of(config=path), command="run")
    assert str(error.value) == f"{path} has the table {header}"
    assert error.value.hint == "the whole file is the table: remove the line with its name"


def test_settings_are_passed_to_ranks_as_command_line_arguments():
    layer = settings.layer_of(
        models=("acme.a", "acme.b"), devices=3, fail_fast=False, stacks=True, output=Path("x"), nproc=2
    )
    assert settings.as_arguments(layer) == (
        "--models", "acme.a", "--models", "acme.b", "--devices", "3", "--no-fail-fast",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, words) for name, (_, words, _) in SAMPLES.items() if words is not None),
        ("models", ["acme.a", "acme.b"]), ("exclude", ["a,b", "c"]), ("steps", "3:"), ("budget", "100%"),
        ("budget", "0.00001"), ("trace_size", "1000B"),
    ],
)  # fmt: skip
def test_the_arguments_for_ranks_are_read_as_the_same_values(name, words):
    setting = BY_NAME[name]
    value = settings.value_of(setting, words)
    passed = settings.as_arguments(((name, value),))
    if passed and not isinstance(value, bool):  # a flag has no text
        assert settings.value_of(setting, passed[1::2] if setting.kind.is_list else passed[1]) == value


def test_each_setting_has_a_command_and_a_help_text():
    assert all(setting.commands and setting.help.endswith(".") for setting in SETTINGS)
    assert {
        setting.name for command in ("run", "replay", "merge", "lint", "pytest") for setting in settings_of(command)
    } == set(SAMPLES)


def test_the_values_that_config_prints_are_valid(tmp_path):
    lines = [f"{key} = {value}" for key, value, _ in effective_settings(str(tmp_path)) if value]
    (tmp_path / "pyproject.toml").write_text("\n".join(["[tool.syncheck]", *lines]))
    assert settings.options_in(str(tmp_path), command="").trace_size == 64 << 20


def test_the_examples_of_all_settings_are_valid(tmp_path):
    lines = [f"{setting.key} = {setting.example}" for setting in SETTINGS if setting.is_in_file]
    (tmp_path / "pyproject.toml").write_text("\n".join(["[tool.syncheck]", *lines]))
    assert json.dumps(settings.options_in(str(tmp_path), command="").devices) == "4"
