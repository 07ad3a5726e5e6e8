"""The documentation builds, and every command and code block in it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from syncheck.config.settings import options_in
from tests import warm
from tests.docs.blocks import PAGES, ROOT, blocks_of

PROJECT = Path(__file__).parent / "project"
FINE = {0, 1}  # 1: it reported findings
OURS = ("syncheck ", "pytest ", "torchrun ")
LIBRARIES = {
    "basicsr",
    "llmcompressor",
    "megatron-core",
    "nvidia-resiliency-ext",
    "torch 2.13",
    "torch-geometric",
    "torchao",
    "torchft",
    "torchtnt",
    "transformers",
}
REASONS = {f"it needs {name}" for name in LIBRARIES} | {
    "it installs from the package index",
    "it makes a whole environment",
    "it needs a SLURM cluster with GPUs",
    "it needs a GPU",
    "it needs Docker",
    "it checks this project itself, for minutes",
    "Lua, for Neovim",
    "Lisp, for Emacs",
    "a part of a program",
    "the rule is an example",
    "a picture",
}


class Reader:
    """Follows a page in a folder as a reader would."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(PROJECT, folder, dirs_exist_ok=True)

    def command(self, line):
        path = os.pathsep.join([warm.BIN, str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, check=False, timeout=240,
            env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        assert done.returncode in FINE, f"$ {line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def sh(self, text):
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                self.command(line)

    def python(self, text):
        name = "test_block.py" if "def test_" in text else "block.py"
        (self.folder / name).write_text(text)
        if name == "test_block.py":
            self.command(f"pytest --syncheck --syncheck-backend sim {name}")
        else:
            self.command(f"syncheck run --backend sim {name}")

    def text(self, text):
        """Run a command after `$` and compare its output, except for times, with the text that follows."""
        first, _, shown = text.partition("\n")
        if first.startswith("$ "):
            found = self.command(first[2:] + " 2>&1")
            assert [line.rstrip() for line in without_times(found)] == without_times(shown)

    def toml(self, text):
        if "syncheck" in tomllib.loads(text).get("tool", {}):
            folder = self.folder / f"settings{len(list(self.folder.iterdir()))}"
            folder.mkdir()
            (folder / "pyproject.toml").write_text(text)
            options_in(str(folder), command="").selected()

    def yaml(self, text):
        for line in commands_in(yaml.safe_load(text)):
            if line.startswith(OURS):
                self.command(line)

    def json(self, text):
        json.loads(text)


def without_times(text):
    return re.sub(r"in \d+\.\d s", "in 0.1 s", text).rstrip().splitlines()


def commands_in(value):
    """Yield the shell commands in a CI configuration."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"run", "script"}:
                yield from inner.splitlines() if isinstance(inner, str) else inner
            else:
                yield from commands_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from commands_in(inner)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page, tmp_path):
    reader = Reader(tmp_path)
    for block in blocks_of(page):
        if block.title is not None:
            file = tmp_path / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
            if block.language == "python":
                compile(block.text, block.title, "exec")
        elif block.reason is None and block.language:
            getattr(reader, block.language)(block.text)


def test_blocks_that_are_not_run_give_a_known_reason():
    reasons = {block.reason for page in PAGES for block in blocks_of(page)} - {None}
    assert reasons <= REASONS
    for page in PAGES:
        marked = page.read_text().count("<!-- not run")
        assert marked == sum(block.reason is not None for block in blocks_of(page)), page.name


def test_the_pages_contain_blocks_of_all_kinds():
    languages = [block.language for page in PAGES for block in blocks_of(page)]
    assert {"sh", "python", "toml", "yaml", "text"} <= set(languages)
    assert len(languages) > 30


def test_the_getting_started_page_is_accurate(tmp_path):
    reader = Reader(tmp_path)
    bad, good = (block.text for block in blocks_of(ROOT / "docs/getting-started.md") if block.title)
    program = tmp_path / "prefetch.py"
    program.write_text(bad)
    for command in ("syncheck run --backend sim", "syncheck lint"):
        found = reader.command(f"{command} --output-format concise prefetch.py 2>&1")
        assert re.findall(r"SYN\d+", found) == ["SYN101", "SYN201"]
    reader.command("syncheck lint --fix prefetch.py")
    assert program.read_text() == good
    assert "no findings" in reader.command("syncheck run --backend sim prefetch.py 2>&1")
