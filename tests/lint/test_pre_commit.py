"""The hooks, run from this repository by the real pre-commit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BAD = (ROOT / "fixtures/unordered-read/bad.py").read_text(encoding="utf-8")

CONFIG = """repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: syncheck
      - id: syncheck-fix
"""
"""Both hooks share one environment, which takes most of the time."""

pre_commit = Path(sys.executable).with_name("pre-commit")
pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(not pre_commit.exists(), reason="pre-commit is not installed"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is not a clone"),
]


def run(*command, cwd, check=True, home):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"PRE_COMMIT_HOME": str(home), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    environment |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_hooks_find_and_fix(tmp_path):
    hooks, project, home = tmp_path / "hooks", tmp_path / "project", tmp_path / "home"
    shutil.copytree(
        ROOT, hooks, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "build", "dist")
    )
    for folder in (hooks, project):
        folder.mkdir(exist_ok=True)
        run("git", "init", "-q", "-b", "main", cwd=folder, home=home)
    run("git", "add", "-A", cwd=hooks, home=home)
    run("git", "commit", "-qm", "hooks", cwd=hooks, home=home)
    revision = run("git", "rev-parse", "HEAD", cwd=hooks, home=home).stdout.strip()
    (project / ".pre-commit-config.yaml").write_text(CONFIG.format(repository=hooks, revision=revision))
    (project / "train.py").write_text(BAD)
    (project / "vendored.py").write_text(BAD)
    (project / "pyproject.toml").write_text('[tool.syncheck]\nexclude = ["vendored.py"]\n')
    run("git", "add", "-A", cwd=project, home=home)

    found = run(pre_commit, "run", "syncheck", "--all-files", cwd=project, check=False, home=home)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "train.py:16:10: SYN101 [error]" in found.stdout or "train.py:14:10: SYN101 [error]" in found.stdout
    assert "vendored.py" not in found.stdout, "the settings exclude it, although pre-commit passes it"
    installed = list(home.rglob("site-packages/torch"))
    assert not installed, "the hook's environment does not need torch"
    run(pre_commit, "run", "syncheck-fix", "--all-files", cwd=project, check=False, home=home)
    assert "wait_stream(side)\nscores" in (project / "train.py").read_text()
    assert (project / "vendored.py").read_text() == BAD
