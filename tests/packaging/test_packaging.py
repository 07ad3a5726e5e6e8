"""The built and installed package works on its own, without torch and without this checkout."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from syncheck.rules.catalogue import CATALOGUE
from syncheck.rules.page import examples

pytestmark = pytest.mark.network  # the build and the installation download from the index

ROOT = Path(__file__).parents[2]
BAD = """import torch

side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""


def run(*command, cwd, **kwargs):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SYNCHECK"))}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, timeout=240,
        env={**environment, **kwargs},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, built from the sdist as for a package index, and the sdist."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("built")
    status, shown = run(sys.executable, "-m", "build", "--quiet", "--outdir", folder, ROOT, cwd=folder)
    assert status == 0, shown
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The command folder of an environment with only the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    venv.create(folder)
    status, shown = run(sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", built[0], cwd=folder)
    assert status == 0, shown
    return folder / "bin"


def test_the_wheel_contains_types_examples_and_the_schema(built):
    with zipfile.ZipFile(built[0]) as archive:
        names = archive.namelist()
    needed = "py.typed fixtures/unordered-read/bad.py report/report-1.schema.json pytest_plugin/__init__.py"
    for wanted in needed.split():
        assert f"syncheck/{wanted}" in names
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]


def test_the_wheel_contains_only_examples_that_a_page_shows(built):
    with zipfile.ZipFile(built[0]) as archive:
        packed = {name for name in archive.namelist() if "/fixtures/" in name}
    shown = {example.path for rule in CATALOGUE for example in examples(rule)}
    assert packed == {f"syncheck/fixtures/{path.parent.name}/{path.name}" for path in shown}


def test_a_package_index_accepts_the_built_files(built):
    status, shown = run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=built[0].parent)
    assert status == 0, shown


def test_the_sdist_contains_what_its_tests_need(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/test_project.py", "docs/lint.md", "mkdocs.yml"} <= names


def test_the_linter_works_without_torch(installed, tmp_path):
    (tmp_path / "train.py").write_text(BAD)
    status, shown = run(installed / "syncheck", "lint", "--output-format", "concise", cwd=tmp_path)
    assert (status, shown.strip().partition(" [")[0]) == (1, "train.py:6:9: SYN101")
    assert run(installed / "syncheck", "lint", "--fix", cwd=tmp_path)[0] == 0
    status, shown = run(installed / "python", "-c", "import torch", cwd=tmp_path)
    assert "No module named 'torch'" in shown


def test_commands_name_missing_dependencies(installed, tmp_path):
    (tmp_path / "train.py").write_text(BAD)
    status, shown = run(installed / "syncheck", "run", "train.py", cwd=tmp_path)
    assert status == 3
    assert "pip install 'torch>=2.8'" in shown
    status, shown = run(installed / "syncheck", "lsp", cwd=tmp_path)
    assert status == 2
    assert "pip install 'syncheck[lsp]'" in shown
    assert "no torch" in run(installed / "syncheck", "--version", cwd=tmp_path)[1]


def test_rules_are_explained_with_examples(installed, tmp_path):
    status, shown = run(installed / "syncheck", "explain", "SYN101", cwd=tmp_path)
    assert status == 0
    assert "## Bad example" in shown


@pytest.mark.parametrize(
    ("words", "wanted"), [("syncheck li", "lint"), ("syncheck lint --unsafe", "--unsafe-fixes"), ("syncheck ", "run")]
)
def test_a_shell_completes_commands_and_options(installed, tmp_path, words, wanted):
    asked = {"_SYNCHECK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    status, shown = run(installed / "syncheck", cwd=tmp_path, **asked)
    assert status == 0
    assert wanted in shown.split()
