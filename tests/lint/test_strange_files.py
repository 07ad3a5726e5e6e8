"""Files that are links, pipes, devices, read-only or in another encoding, or whose names are not valid text."""

import json
import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from syncheck.commands.lint import LintRequest, lint
from syncheck.config.options import FORMATS, Options
from syncheck.config.settings import layer_of
from syncheck.lint import budget
from syncheck.lint.budget import Budget
from syncheck.report.render import render
from tests import warm

BAD = """import torch
side = torch.cuda.Stream()
x = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""
REPAIR = "side.wait_stream(torch.cuda.current_stream())\n"
FIXED = BAD.replace("with torch", REPAIR + "with torch")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments, cwd, env=None, **kwargs):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | (env or {})
    words = [warm.PYTHON, "-m", "syncheck", "lint", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, env=environment, text=True, timeout=250, check=False, **kwargs)


def changed(kind="fix", *paths):
    return lint(LintRequest(paths or (".",), change=kind))[0]


@pytest.mark.parametrize("kind", ["fix", "ignore"])
def test_fixing_through_a_symlink_keeps_the_symlink(folder, kind):
    (folder / "train.py").rename(folder / "target.txt")
    (folder / "target.txt").chmod(0o640)
    (folder / "train.py").symlink_to("target.txt")
    assert changed(kind).findings == ()
    assert (folder / "train.py").is_symlink()
    assert (folder / "target.txt").read_text() != BAD
    assert stat.S_IMODE((folder / "target.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("encoding", "first"),
    [("utf-8-sig", "# ü\n"), ("latin-1", "# coding: latin-1\n# ü\n"), ("cp1252", "# coding: cp1252\n# €\n")],
)
def test_a_file_keeps_its_encoding_and_byte_order_mark(folder, encoding, first):
    (folder / "train.py").write_bytes((first + BAD).encode(encoding))
    assert changed().findings == ()
    assert (folder / "train.py").read_bytes() == (first + FIXED).encode(encoding)
    (folder / "train.py").write_bytes((first + BAD).encode(encoding))
    assert changed("ignore").findings == ()
    assert "# syncheck: ignore[SYN101]" in (folder / "train.py").read_bytes().decode(encoding)


def test_an_unwritable_file_is_named_and_the_others_are_changed(folder, monkeypatch):
    (folder / "other.py").write_text(BAD)
    real = os.replace

    def full(source, target):
        if target.endswith("train.py"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    report = changed()
    assert [finding.location.frame.path for finding in report.findings] == ["train.py"]
    assert report.incomplete == ("train.py: cannot be changed: No space left on device",)
    assert (folder / "train.py").read_text() == BAD
    assert (folder / "other.py").read_text() == FIXED
    assert sorted(path.name for path in folder.iterdir()) == ["other.py", "train.py"]


@pytest.mark.parametrize("kind", ["", "fix"])
def test_a_pipe_is_skipped_without_waiting(folder, kind):
    os.mkfifo(folder / "x.py")
    report = changed(kind)
    assert report.incomplete == ("x.py: not a regular file",)
    assert len(report.findings) == (kind == "")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_name_that_is_not_valid_text_can_be_reported(folder, kind):
    name = os.fsdecode(b"tr\xffain.py")
    (folder / "train.py").rename(folder / name)
    report, _ = lint(LintRequest((".",)))
    text = render(report, Options(), color=False)
    assert "SYN101" in text
    assert text.encode()
    done = command("--no-cache", "--output-format", kind, cwd=folder, capture_output=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "SYN101" in done.stdout
    if kind in {"json", "sarif", "gitlab"}:
        json.loads(done.stdout)


def test_a_name_that_is_not_valid_text_can_be_in_a_baseline(folder):
    (folder / "train.py").rename(folder / os.fsdecode(b"tr\xffain.py"))
    layer = {"baseline": folder / "known.json"}
    lint(LintRequest((".",), layer_of(**layer, write_baseline=True)))
    assert lint(LintRequest((".",), layer_of(**layer)))[0].findings == ()


def test_a_symlinked_baseline_stays_a_symlink_and_keeps_its_mode(folder):
    (folder / "inner").mkdir()
    (folder / "known.json").symlink_to("inner/known.json")
    for _ in range(2):
        lint(LintRequest((".",), layer_of(baseline=folder / "known.json", write_baseline=True)))
        assert (folder / "known.json").is_symlink()
        assert (folder / "inner" / "known.json").stat().st_mode == (folder / "train.py").stat().st_mode
    assert [path.name for path in (folder / "inner").iterdir()] == ["known.json"]


def test_a_device_cannot_be_a_baseline_or_settings_file(folder):
    for option in ("--baseline", "--config"):
        done = command(option, "/dev/zero", "--no-cache", cwd=folder, capture_output=True)
        assert done.returncode == 2
        assert "/dev/zero: not a regular file" in done.stderr


def test_a_report_that_cannot_be_written_keeps_the_old_one_and_is_printed(folder):
    (folder / "report.txt").write_text("the old report")
    limit = "ulimit -f 0; exec "
    words = f"{limit}{sys.executable} -m syncheck lint --no-cache --output report.txt"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", words], cwd=folder, env=environment, text=True, timeout=250, check=False, capture_output=True
    )
    assert done.returncode == 3
    assert "cannot write the report to" in done.stderr
    assert "error[SYN101]" in done.stderr
    assert (folder / "report.txt").read_text() == "the old report"
    assert sorted(path.name for path in folder.iterdir()) == ["report.txt", "train.py"]


def test_findings_go_to_stderr_if_standard_output_is_full(folder):
    for kind in ("text", "json"):
        with open("/dev/full", "w") as full:
            done = command("--no-cache", "--output-format", kind, cwd=folder, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 3
        assert "cannot write the report to standard output: No space left on device" in done.stderr
        assert "SYN101" in done.stderr


def test_a_file_with_too_much_code_is_not_followed_to_the_end_and_the_report_says_so(folder, monkeypatch):
    monkeypatch.setattr("syncheck.lint.analysis.Budget", partial(Budget, 4_000))
    block = "    with torch.cuda.stream(side):\n        x.add_(1)\n"
    lines = "\n".join(f"    n = {n}" for n in range(350))
    function = (
        f"def work{{0}}():\n    side = torch.cuda.Stream()\n    x = torch.ones(4, device='cuda')\n{lines}\n{block}"
    )
    (folder / "train.py").write_text("import torch\n" + "".join(map(function.format, range(40))))
    report, _ = lint(LintRequest((".",), tries_fixes=False))
    lines_found = [finding.location.frame.line for finding in report.findings]
    assert 350 < min(lines_found) < max(lines_found) < 20 * 350
    (note,) = report.notes
    assert note.startswith("train.py: not followed to the end")
    assert report.incomplete == ()


def test_the_fixes_of_a_very_large_file_are_not_tried_for_a_report(folder, monkeypatch):
    monkeypatch.setattr("syncheck.lint.fixes.repair.lint_source", None)  # called for each attempt
    (folder / "train.py").write_text(BAD + "# filler\n" * 60_000)
    report, _ = lint(LintRequest((".",)))
    assert [finding.fix is not None for finding in report.findings] == [True]


def test_the_report_from_the_cache_says_that_a_file_was_not_followed_to_the_end(folder, monkeypatch):
    monkeypatch.setattr(Budget, "is_left", lambda self: setattr(self, "left_out", budget.TOO_MUCH))
    (folder / "train.py").write_text(FIXED + "# syncheck: ignore[SYN101]\n")
    reports = [lint(LintRequest((".",), cache=folder / "cache"))[0] for _ in range(2)]
    assert reports[0].notes == reports[1].notes
    (note,) = reports[0].notes  # nothing about the comment, since the code for it may be what was left out
    assert note.startswith("train.py: not followed to the end")


def test_known_findings_of_a_file_that_was_not_followed_to_the_end_stay_in_the_baseline(folder, monkeypatch):
    request = LintRequest((".",), layer_of(baseline=folder / "known.json", write_baseline=True))
    lint(request)
    with monkeypatch.context() as patched:
        patched.setattr(Budget, "is_left", lambda self: setattr(self, "left_out", budget.TOO_MUCH))
        assert lint(request)[0].findings == ()
    report, _ = lint(LintRequest((".",), layer_of(baseline=folder / "known.json")))
    assert (report.findings, report.known) == ((), 1)


LONG_SUM = " + ".join(["'a'"] * 2500)


def test_the_report_says_that_code_was_nested_too_deeply_to_be_followed(folder):
    body = "".join(f"    {line}\n" for line in BAD.splitlines()[1:])
    (folder / "train.py").write_text(f"import torch\ndef work():\n{body}    s = {LONG_SUM}\n")
    report, _ = lint(LintRequest((".",), tries_fixes=False))
    assert report.notes == (
        "train.py: not followed to the end: findings in code that is nested too deeply are missing",
    )


@pytest.mark.parametrize("more", ["", "  # syncheck: ignore[SYN401]"])
def test_deeply_nested_code_next_to_a_finding_does_not_end_the_run(folder, more):
    (folder / "train.py").write_text(f"{BAD}s = {LONG_SUM}{more}\n")
    done = command("--no-cache", cwd=folder, capture_output=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "SYN101" in done.stdout


def test_warnings_about_the_text_of_a_file_do_not_replace_its_findings(folder):
    helper = f"def pattern():\n{'    # a body that is parsed later' * 9}\n    return '\\d'\n"
    (folder / "train.py").write_text(f"{BAD}print('\\d')\n{helper}")
    done = command("--no-cache", cwd=folder, capture_output=True, env={"PYTHONWARNINGS": "error"})
    assert (done.returncode, done.stderr) == (1, "")
    assert "SYN101" in done.stdout
