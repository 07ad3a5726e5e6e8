"""The Visual Studio Code extension builds, and the commands and settings it uses exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from syncheck.cli.app import cli
from syncheck.version import __version__
from tests import network

FOLDER = Path(__file__).parents[2] / "editors/vscode"
SOURCE = (FOLDER / "src/extension.ts").read_text(encoding="utf-8")
MANIFEST = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))

# `vscode` exists only inside the editor: in this stand-in, every name is a class that can be called and extended.
LOAD = """
const Module = require("node:module");
const any = () => new Proxy(class {}, { get: (of, name) => name in of ? of[name] : any(), apply: any });
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? any() : load(name, ...rest));
console.log(Object.keys(require("./dist/extension.js")).sort().join());
"""


def npm(folder, *words):
    done = subprocess.run(
        ["npm", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=280, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_extension_starts_an_existing_command():
    (word,) = re.findall(r'args: \[\.\.\.words, "(\w+)"\]', SOURCE)
    assert word in get_command(cli).commands
    settings = MANIFEST["contributes"]["configuration"]["properties"]
    assert settings["syncheck.command"]["default"] == ["syncheck"]


def test_the_extension_declares_its_settings_and_commands():
    settings = MANIFEST["contributes"]["configuration"]["properties"]
    used = re.findall(r'affectsConfiguration\("([\w.]+)"\)', SOURCE)
    used += [f"syncheck.{name}" for name in re.findall(r'\.get<[^(]*>\("(\w+)"', SOURCE)]
    assert used
    assert set(used) <= set(settings)
    declared = [command["command"] for command in MANIFEST["contributes"]["commands"]]
    assert re.findall(r'registerCommand\("([\w.]+)"', SOURCE) == declared


def test_the_extension_has_the_version_of_the_package():
    assert MANIFEST["version"] == __version__
    assert json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))["version"] == __version__


@pytest.mark.network
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_extension_builds_and_loads(tmp_path):
    if not network.has_npm_registry():
        pytest.skip("the npm registry cannot be reached")
    folder = tmp_path / "vscode"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    npm(folder, "ci", "--no-audit", "--no-fund")
    npm(folder, "run", "build")
    done = subprocess.run(["node", "-e", LOAD], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("activate,deactivate", "")
