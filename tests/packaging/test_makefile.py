"""The Makefile's commands report missing requirements before they do anything."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = """#!/bin/sh
exec {python} -c "import sys; sys.version_info = (3, 9, 1); exec(sys.argv[2])" "$@"
"""
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def make(tmp_path):
    """Return a function that runs make in a folder with the files its targets need but no environment."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*arguments):
        done = subprocess.run(
            ["make", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("target", ["demo", "check"])
def test_an_old_python_is_rejected_by_name(make, tmp_path, target):
    old = tmp_path / "python3.9"
    old.write_text(OLD.format(python=sys.executable))
    old.chmod(0o755)
    status, shown = make(f"PYTHON={old}", target)
    assert status == 2
    assert f"syncheck needs Python 3.11 or newer, and {old} is 3.9; name another one: " in shown
    assert f"make PYTHON=python3.12 {target}" in shown
    assert not list(tmp_path.glob(".venv*"))


def test_a_missing_python_is_named(make, tmp_path):
    status, shown = make("PYTHON=no-such-python", "demo")
    assert status == 2
    assert "no-such-python not found: install Python 3.11 or newer" in shown


def test_the_demo_installs_no_development_dependencies(make):
    status, shown = make("--dry-run", "demo")
    assert status == 0
    assert "'.[torch]'" in shown
    assert "--group" not in shown
    assert ".venv/" not in shown
