"""Published texts outside the documentation match the project: commands, files, versions and workflows exist."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from syncheck.rules.catalogue import CATALOGUE
from syncheck.version import __version__
from tests.commands import unknown_argument

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BAD = (ROOT / "fixtures/unordered-read/bad.py").read_text(encoding="utf-8")
TEXTS = ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "docs/stability.md"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def steps_of(job):
    return [step["run"] for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("name", TEXTS)
def test_commands_and_files_named_in_a_text_exist(name):
    text = read(name)
    targets = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`]+`|```.*?```", text, re.DOTALL))))
    assert targets <= set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    for command in re.findall(r"`(syncheck [a-z][^`]*)`", text):
        assert unknown_argument(command) is None, command
    generated = {"rules/index.md", "report-1.schema.json"}
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert link.startswith("https://") or link in generated or ((ROOT / name).parent / link).is_file(), link


def test_the_citation_has_the_current_version():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["repository-code"] == PROJECT["project"]["urls"]["Source"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_rule_codes_keep_their_names():
    published = dict(line.split() for line in read("tests/golden/codes.txt").splitlines())
    now = {rule.code: rule.name for rule in CATALOGUE}
    assert {code: now.get(code) for code in published} == published


def test_the_stability_page_names_the_report_version():
    schema = json.loads(read("syncheck/report/report-1.schema.json"))
    assert f"`version` is {schema['properties']['version']['const']};" in read("docs/stability.md")


def test_the_workflow_covers_the_declared_versions_and_systems():
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == declared
    systems = workflow["jobs"]["other-systems"]["strategy"]["matrix"]["system"]
    assert {system.partition("-")[0] for system in systems} == {"windows", "macos"}


@pytest.mark.parametrize(("name", "expected"), [("ci", "make check"), ("nightly", "make agree PROGRAMS=3000")])
def test_commands_and_files_used_in_a_workflow_exist(name, expected):
    jobs = yaml.safe_load(read(f".github/workflows/{name}.yml"))["jobs"].values()
    commands = [command for job in jobs for command in steps_of(job) if "${{" not in command]
    commands += [command for job in jobs for command in job.get("strategy", {}).get("matrix", {}).get("command", ())]
    targets = set(re.findall(r"^([a-z]+|\.venv/ready):", read("Makefile"), re.MULTILINE))
    assert expected in commands
    for command in commands:
        if command.startswith("make "):
            assert command.split()[1] in targets
        if command.startswith("npm run "):
            assert command.split()[2] in json.loads(read("editors/vscode/package.json"))["scripts"]
        missing = [word for word in command.split() if word.startswith("tests/") and not (ROOT / word).exists()]
        assert not missing
        if "--group" in command:
            assert command.split("--group ")[1].split()[0] in PROJECT["dependency-groups"]


def test_the_action_annotates_its_findings(tmp_path):
    action = yaml.safe_load(read("action.yml"))
    (script,) = steps_of(action["runs"])
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "train.py").write_text(BAD)
    defaults = {name: value["default"] for name, value in action["inputs"].items()}
    environment = os.environ | {"PYTHON": str(python), "OPTIONS": defaults["options"], "PATHS": defaults["paths"]}
    environment |= {"GITHUB_ACTION_PATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "::error " in done.stdout
    assert "file=train.py" in done.stdout


def test_the_image_contains_everything_the_build_reads():
    lines = read("Dockerfile").splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert all((ROOT / name).exists() for name in copied)
    wanted = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    wanted |= {
        path.strip("/").split("/")[0] for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    }
    assert copied == wanted
    assert {name.removeprefix("!") for name in read(".dockerignore").splitlines() if name.startswith("!")} == wanted
    (entry,) = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("ENTRYPOINT ")]
    assert entry[0] in PROJECT["project"]["scripts"]
    for line in lines:
        if line.startswith("#   docker run"):
            assert unknown_argument(line[line.index(" syncheck") :].strip()) is None
