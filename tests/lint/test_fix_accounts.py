"""`syncheck lint` accounts for its changes: fixable findings, fixed ones, and the files it wrote."""

import json
from pathlib import Path

import pytest

from syncheck.commands.lint import LintRequest, lint
from syncheck.config.options import Options
from syncheck.report.render import render
from tests.lint.test_lint_command import BAD, GOOD
from tests.lint.test_lint_command import lint as command

TIMED = "import time\nt = time.time()\nz = x * 2\nprint(time.time() - t)\n"
UNUSED = GOOD + "q = x + 1  # syncheck: ignore[SYN101] once needed\n"


FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "timed.py").write_text(GOOD + TIMED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(change="", *, unsafe=False, paths=(".",), **options):
    report, _ = lint(LintRequest(paths, change=change, unsafe=unsafe))
    return render(report, Options(**options), color=False)


def test_findings_that_fix_would_fix_are_marked_and_counted(folder):
    text = shown()
    assert "error[SYN101] [*] unordered-read: " in text
    assert "error[SYN701] unsynchronized-timing: " in text
    assert "\n[*] 1 fixable with --fix, 1 more with --unsafe-fixes\n" in text


def test_unsafe_fixes_are_marked_if_enabled(folder):
    text = shown(unsafe=True)
    assert "error[SYN701] [*] unsynchronized-timing: " in text
    assert "\n[*] 2 fixable with --fix\n" in text


def test_findings_with_only_unsafe_fixes_are_counted(folder):
    text = shown(paths=("timed.py",))
    assert "[*] unsync" not in text
    assert "\n1 fixable with --unsafe-fixes\n" in text


def test_the_concise_format_accounts_for_fixes(folder):
    text = shown(output_format="concise")
    assert "SYN101 [error] [*] stream `side`" in text
    assert "SYN701 [error] this measures the launch" in text
    assert text.endswith("\n[*] 1 fixable with --fix, 1 more with --unsafe-fixes\n")
    assert "fixable" not in shown(output_format="concise", quiet=True)
    text = shown("fix", output_format="concise", show_fixes=True)
    assert "\nFixed 1 finding:\n- train.py:\n    1 x SYN101 (unordered-read)\n\n" in text
    assert text.endswith("\nFound 2 findings (1 fixed, 1 remaining)\n1 fixable with --unsafe-fixes\n")


def test_json_contains_the_same_numbers(folder):
    def fixes(*given, **wanted):
        return json.loads(shown(*given, **wanted, output_format="json"))["fixes"]

    assert fixes() == {"fixed": 0, "fixable": 1, "fixable_unsafe": 1}
    assert fixes("fix") == {"fixed": 1, "fixable": 0, "fixable_unsafe": 1}
    assert fixes("fix", unsafe=True) == {"fixed": 1, "fixable": 0, "fixable_unsafe": 0}


@pytest.mark.parametrize("unsafe", [False, True])
def test_marked_findings_are_fixed(unsafe):
    rules = ("event-without-timing", "wrong-device-sync", "missing-record-stream", "unordered-write")
    paths = tuple(str(FIXTURES / rule) for rule in rules)  # each has a fix that does not remove its finding
    marked, _ = lint(LintRequest(paths, unsafe=unsafe))
    promised = [finding for finding in marked.findings if marked.is_fixable(finding)]
    _, changed = lint(LintRequest(paths, change="diff", unsafe=unsafe))
    made = {(f.location.frame.path, f.rule.code, f.message) for f in changed.fixed}
    assert len(promised) > 5
    assert {(f.location.frame.path, f.rule.code, f.message) for f in promised} <= made


def test_only_the_unused_codes_of_a_comment_are_removed(folder):
    silenced = BAD.replace("y = x * 2", "y = x * 2  # syncheck: ignore[SYN101, SYN302] it is so")
    (folder / "train.py").write_text(silenced)
    before = shown(paths=("train.py",))
    assert "unused `SYN302` in `syncheck: ignore[SYN101, SYN302]`" in before
    assert "removed 1 comment from 1 file" in shown("remove", paths=("train.py",))
    assert "# syncheck: ignore[SYN101] it is so\n" in (folder / "train.py").read_text()
    assert "unused" not in shown(paths=("train.py",))


def test_a_clean_report_mentions_no_fixes(folder):
    (folder / "train.py").write_text(GOOD)
    assert "fixable" not in shown(paths=("train.py",))


def test_fixed_findings_are_counted(folder):
    text = shown("fix")
    assert "\nFound 2 findings (1 fixed, 1 remaining)\n" in text
    assert "SYN101" not in text
    assert "\n1 fixable with --unsafe-fixes\n" in text
    assert "Found" not in shown("fix")


def test_the_count_is_shown_if_all_findings_are_fixed(folder):
    text = shown("fix", paths=("train.py",))
    assert "\nFound 1 finding (1 fixed, 0 remaining)\n" in text


def test_a_finding_resolved_by_another_fix_counts_as_fixed(folder):
    (folder / "train.py").write_text(BAD + "with torch.cuda.stream(side):\n    z = x * 3\n")
    before = len(json.loads(shown(paths=("train.py",), output_format="json"))["findings"])
    assert f"({before} fixed, 0 remaining)" in shown("fix", paths=("train.py",))


def test_fixes_can_be_listed(folder):
    text = shown("fix", show_fixes=True)
    assert "Fixed 1 finding:\n- train.py:\n    1 x SYN101 (unordered-read)\n" in text
    assert "Fixed" not in shown("fix", show_fixes=True)


def test_a_fix_that_failed_is_no_longer_offered(folder, monkeypatch):
    monkeypatch.setattr("syncheck.lint.fixes.repair.codemods.apply", lambda source, edits: (source, set()))
    (finding,) = json.loads(shown("fix", output_format="json", paths=("train.py",)))["findings"]
    assert finding["fix"]["applicability"] == "example"
    assert "fixable" not in shown("fix", paths=("train.py",))


def test_added_comments_are_counted(folder):
    assert "note: added 2 comments to 2 files\n" in shown("ignore")
    assert "added" not in shown("ignore")


def test_unused_comments_can_be_removed(folder):
    (folder / "fine.py").write_text(UNUSED)
    before = shown(paths=("fine.py",))
    assert "note: fine.py:8: unused `syncheck: ignore[SYN101]`\n" in before
    assert "note: --remove-unused-ignores removes unused comments\n" in before
    after = shown("remove", paths=("fine.py",))
    assert "note: removed 1 comment from 1 file\n" in after
    assert "unused" not in after
    assert (folder / "fine.py").read_text().endswith("q = x + 1\n")


def test_writing_a_baseline_names_the_file(folder):
    done = command("--baseline", "known.json", "--write-baseline", cwd=folder)
    assert "note: wrote 2 findings to known.json\n" in done.stdout
    assert len(json.loads((folder / "known.json").read_text())["findings"]) == 2


def test_the_command_line_accepts_the_options(folder):
    done = command("--fix", "--show-fixes", "train.py", cwd=folder)
    assert "Fixed 1 finding:" in done.stdout
    (folder / "fine.py").write_text(UNUSED)
    assert command("--remove-unused-ignores", "fine.py", cwd=folder).returncode == 0
    assert "ignore" not in (folder / "fine.py").read_text()


def test_mutually_exclusive_changes_are_rejected(folder):
    done = command("--fix", "--add-ignores", cwd=folder)
    assert done.returncode == 2
    assert "--fix and --add-ignores" in done.stderr
    assert (folder / "train.py").read_text() == BAD


def test_a_diff_reports_how_many_findings_it_would_fix(folder):
    assert command("--diff", "train.py", cwd=folder).stderr == "Would fix 1 finding.\n"
    assert command("--diff", cwd=folder).stderr == "Would fix 1 of 2 findings.\n"
    done = command("--diff", "timed.py", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "Would fix 0 of 1 finding.\n")
