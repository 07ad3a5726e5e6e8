"""`syncheck lint` from a user's point of view."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from syncheck.config.options import Options
from syncheck.findings import Finding, Frame, Location, merge_equal
from syncheck.lint import engine, files
from syncheck.lint.cache import Cache
from syncheck.rules.catalogue import find
from tests import warm

BAD = """import torch
side = torch.cuda.Stream()
x = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
print(x.sum().item())
"""
GOOD = BAD.replace("with torch", "side.wait_stream(torch.cuda.current_stream())\nwith torch")


def lint(*arguments, cwd, **kwargs):
    command = [warm.PYTHON, "-m", "syncheck", "lint", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False, env=environment, **kwargs
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "fine.py").write_text(GOOD)
    return tmp_path


def codes(done):
    return [line.split(": ", 1)[1].split()[0] for line in done.stdout.splitlines() if ": SYN" in line]


def test_a_folder_is_linted_without_torch(folder):
    (folder / "torch.py").write_text("raise SystemExit('torch was imported')")
    done = lint(cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "error[SYN101] [*] unordered-read: stream `side` (cuda:0) reads `x`" in " ".join(done.stdout.split())
    assert "side.wait_stream(torch.cuda.current_stream())` before line 4" in " ".join(done.stdout.split())
    assert "looked at: 3 files" in done.stdout


def test_findings_on_one_line_are_sorted_by_column(folder):
    found = (("SYN101", 20), ("SYN201", 5), ("SYN101", 9))
    findings = [Finding(find(code), Location(Frame("a.py", 3, column)), "") for code, column in found]
    assert [finding.location.frame.column for finding in merge_equal(findings)] == [5, 9, 20]


def test_a_clean_file_gives_exit_status_0(folder):
    done = lint("fine.py", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no findings" in done.stdout


def test_a_stub_file_is_not_analyzed():
    assert engine.lint_data("train.py", BAD.encode()).findings
    assert not engine.lint_data("train.pyi", BAD.encode()).findings
    assert not engine.lint_data("train.pyi", BAD.encode()).is_checked


def test_rules_can_be_selected_by_prefix_and_name(folder):
    assert codes(lint("--select", "SYN1", "--output-format", "concise", cwd=folder)) == ["SYN101"]
    assert codes(lint("--select", "SYN2", "--output-format", "concise", cwd=folder)) == []
    assert codes(lint("--select", "SYN2", "--extend-select", "SYN101", "--output-format", "concise", cwd=folder))
    assert codes(lint("--ignore", "unordered-read", "--output-format", "concise", cwd=folder)) == []
    done = lint("--select", "SYN999", cwd=folder)
    assert done.returncode == 2
    assert "SYN999" in done.stderr


def test_settings_come_from_the_nearest_pyproject(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\nignore = ["SYN101"]\n')
    inner = folder / "inner"
    inner.mkdir()
    (inner / "train.py").write_text(BAD)
    assert lint("--output-format", "concise", cwd=folder).stdout == ""
    (inner / "pyproject.toml").write_text("[tool.syncheck]\n")
    assert "inner/train.py:5" in lint("--output-format", "concise", cwd=folder).stdout


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('selekt = ["SYN1"]', "did you mean select?"),
        ('select = "SYN1"', "write, for example, select ="),
        ('fail-on = "never"', "choose from error, warning, advice"),
        ("select = [", "cannot read"),
    ],
)
def test_invalid_settings_are_named(folder, settings, words):
    (folder / "pyproject.toml").write_text(f"[tool.syncheck]\n{settings}\n")
    done = lint(cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr


def test_files_can_be_excluded(folder):
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("generated/\n")
    for name in ("generated", "old"):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text(BAD)
    shown = lint("--show-files", "--exclude", "old/", cwd=folder).stdout.split()
    assert [Path(path).name for path in shown] == ["fine.py", "train.py"]
    assert len(lint("--show-files", "--no-respect-gitignore", cwd=folder).stdout.split()) == 4
    (folder / "pyproject.toml").write_text('[tool.syncheck.per-file-ignores]\n"old/*" = ["SYN1"]\n')
    assert codes(lint("--output-format", "concise", cwd=folder)) == ["SYN101"]


def test_comments_suppress_findings_and_unused_ones_are_reported(folder):
    (folder / "train.py").write_text(
        BAD.replace("y = x * 2", "y = x * 2  # syncheck: ignore[SYN101] the other side waits")
    )
    (folder / "fine.py").write_text("# syncheck: ignore-file[SYN2]\n" + GOOD)
    done = lint(cwd=folder)
    assert done.returncode == 0
    assert "fine.py:1: unused `syncheck: ignore-file[SYN2]`" in done.stdout
    assert "train.py:" not in done.stdout


def test_ignores_can_be_added(folder):
    assert lint("--add-ignores", cwd=folder).returncode == 0
    assert "    y = x * 2  # syncheck: ignore[SYN101]\n" in (folder / "train.py").read_text()
    assert (folder / "fine.py").read_text() == GOOD


def test_a_fix_can_be_shown_and_applied(folder):
    (folder / "train.py").write_bytes(BAD.replace("\n", "\r\n").encode())
    done = lint("--diff", cwd=folder)
    assert done.returncode == 1
    assert "+side.wait_stream(torch.cuda.current_stream())" in done.stdout
    assert (folder / "train.py").read_bytes() == BAD.replace("\n", "\r\n").encode()
    assert lint("--fix", cwd=folder).returncode == 0
    fixed = GOOD
    assert (folder / "train.py").read_bytes() == fixed.replace("\n", "\r\n").encode()
    assert lint("--diff", cwd=folder).returncode == 0


def test_fixes_that_make_the_host_wait_need_unsafe_fixes(folder):
    source = GOOD + "import time\nt = time.time()\nz = x * 2\nprint(time.time() - t)\n"
    (folder / "fine.py").write_text(source)
    assert lint("--fix", "fine.py", cwd=folder).returncode == 1
    assert (folder / "fine.py").read_text() == source
    assert lint("--fix", "--unsafe-fixes", "fine.py", cwd=folder).returncode == 0
    wait = "torch.cuda.synchronize()\n"  # work may be pending at either clock
    repaired = source.replace("t = time", f"{wait}t = time").replace("print(time", f"{wait}print(time")
    assert (folder / "fine.py").read_text() == repaired


def test_standard_input_can_be_given_a_file_name(folder):
    done = lint("-", "--stdin-filename", "from_editor.py", "--output-format", "concise", cwd=folder, input=BAD)
    assert done.stdout.startswith("from_editor.py:5:9: SYN101 [error]")


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_standard_input_is_fixed_to_standard_output(folder, output_format):
    done = lint("-", "--fix", "--output-format", output_format, cwd=folder, input=BAD)
    assert (done.returncode, done.stdout) == (0, GOOD)
    assert ("1 fixed, 0 remaining" if output_format == "text" else '"fixed": 1') in done.stderr


@pytest.mark.parametrize("text", [GOOD, "x = 1\n", "torch.cuda.Stream(\n", ""])
def test_standard_input_that_cannot_be_fixed_is_written_unchanged(folder, text):
    assert lint("-", "--fix", "-q", cwd=folder, input=text).stdout == text


def test_standard_input_keeps_what_needs_unsafe_fixes(folder):
    text = GOOD + "import time\nt = time.time()\nz = x * 2\nprint(time.time() - t)\n"
    done = lint("-", "--fix", cwd=folder, input=text)
    assert (done.returncode, done.stdout) == (1, text)
    assert "SYN701" in done.stderr
    done = lint("-", "--fix", "--unsafe-fixes", cwd=folder, input=text)
    assert done.returncode == 0
    assert "torch.cuda.synchronize()\n" in done.stdout


def test_the_fixes_of_standard_input_can_be_shown_as_a_diff(folder):
    done = lint("-", "--diff", "--stdin-filename", "a.py", cwd=folder, input=BAD)
    assert done.returncode == 1
    assert done.stdout.startswith("--- a.py\n+++ a.py\n")
    assert "+side.wait_stream(torch.cuda.current_stream())\n" in done.stdout
    assert done.stderr == "Would fix 1 finding.\n"


def test_a_diff_reports_files_that_could_not_be_checked(folder):
    (folder / "broken.py").write_text("import torch\nside = torch.cuda.Stream(\n")
    problem = "incomplete: broken.py: line 2: '(' was never closed\n"
    done = lint("--diff", "broken.py", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"{problem}Would fix 0 findings.\n")
    done = lint("--diff", "--quiet", "broken.py", "fine.py", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", problem)
    done = lint("-", "--diff", "--stdin-filename", "broken.py", cwd=folder, input=(folder / "broken.py").read_text())
    assert (done.returncode, done.stderr) == (3, f"{problem}Would fix 0 findings.\n")
    (folder / "empty").mkdir()
    done = lint("--diff", "empty", cwd=folder)
    assert (done.returncode, done.stderr.partition("\n")[0]) == (
        3, "incomplete: nothing to check: there is no Python file",
    )  # fmt: skip


def test_a_diff_obeys_exit_zero(folder):
    (folder / "broken.py").write_text("import torch\nside = torch.cuda.Stream(\n")
    assert lint("--diff", "--exit-zero", "train.py", cwd=folder).returncode == 0
    assert lint("--diff", "--exit-zero", "broken.py", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--diff", "--output", "report.txt"], "--diff and --output cannot be combined"),
        (["--diff", "--output-format", "json"], "--diff and --output-format cannot be combined"),
        (["--diff", "--baseline", "b.json", "--write-baseline"], "--diff and --write-baseline cannot be combined"),
        (["--diff", "--statistics"], "--diff and --statistics cannot be combined"),
        (["--statistics", "--output", "report.txt"], "--statistics and --output cannot be combined"),
        (["--statistics", "--output-format", "json"], "--statistics and --output-format cannot be combined"),
    ],
)
def test_options_of_a_report_are_rejected_where_there_is_none(folder, options, words):
    before = sorted(folder.iterdir())
    done = lint(*options, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert sorted(folder.iterdir()) == before


def test_a_diff_uses_no_report_settings_of_the_file(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\noutput-format = "json"\n')
    assert lint("--diff", cwd=folder).stderr == "Would fix 1 finding.\n"


def test_comments_are_added_to_standard_input_and_removed(folder):
    commented = BAD.replace("x * 2", "x * 2  # syncheck: ignore[SYN101]")
    assert lint("-", "--add-ignores", cwd=folder, input=BAD).stdout == commented
    unused = GOOD + "q = x + 1  # syncheck: ignore[SYN101]\n"
    assert lint("-", "--remove-unused-ignores", cwd=folder, input=unused).stdout == GOOD + "q = x + 1\n"


def test_a_notebook_is_linted_cell_by_cell(folder):
    cells = [
        {"cell_type": "markdown", "source": ["# text"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n", "side = torch.cuda.Stream()"]},
        {
            "cell_type": "code",
            "source": 'x = torch.ones(4, device="cuda")\nwith torch.cuda.stream(side):\n    y = x * 2',
        },
    ]
    (folder / "nb.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    done = lint("nb.ipynb", "--output-format", "concise", cwd=folder)
    assert done.stdout.startswith("nb.ipynb:cell 3:3:9: SYN101"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"import torch\nside = torch.cuda.Stream(\n", "broken.py: line 2"),
        (b"import torch  # \xff\nside = torch.cuda.Stream()\n", "broken.py: "),
        (b"# coding: klingon\nimport torch\ntorch.cuda.Stream()\n", "unknown encoding"),
        (b"import torch\0\ntorch.cuda.Stream()\n", "NUL byte"),
        (b"import torch\nprint torch.cuda.Stream()\n", "broken.py: line 2"),
    ],
)
def test_an_unreadable_file_is_reported_and_the_others_are_linted(folder, data, words):
    (folder / "broken.py").write_bytes(data)
    done = lint("--output-format", "concise", cwd=folder)
    assert done.returncode == 1
    assert codes(done) == ["SYN101"]
    assert words in done.stdout
    assert lint("broken.py", cwd=folder).returncode == 3


def test_a_file_that_need_not_be_parsed_is_not_called_checked(folder):
    (folder / "broken.py").write_bytes(b"def f(:\n  # \xff\n")
    done = lint("broken.py", cwd=folder)
    assert done.returncode == 0
    assert "looked at: 1 file in" in done.stdout
    assert "checked" not in done.stdout


@pytest.mark.parametrize(
    "source",
    [
        b"\xef\xbb\xbf" + BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
        BAD.replace("    ", "\t").encode(),
        b"# coding: latin-1\n# \xe9\n" + BAD.encode(),
        pytest.param((BAD + "x = 1\n" * 100_000).encode(), marks=pytest.mark.slow),
    ],
    ids=["byte-order mark", "CRLF", "tabs", "latin-1", "100,000 lines"],
)
def test_unusual_files_are_linted(folder, source):
    (folder / "train.py").write_bytes(source)
    assert codes(lint("train.py", "--output-format", "concise", cwd=folder)) == ["SYN101"]


def test_deep_nesting_and_symlink_loops_do_not_crash(folder):
    (folder / "deep.py").write_text("import torch\ntorch.cuda.Stream()\nx = " + "(" * 2000 + ")" * 2000 + "\n")
    (folder / "deeper.py").write_text("import torch\ntorch.cuda.Stream()\nx = " + "-" * 3000 + "1\n")
    (folder / "loop").symlink_to(folder)
    done = lint("--output-format", "concise", cwd=folder)
    assert codes(done) == ["SYN101"]
    assert "Traceback" not in done.stderr


def test_an_unreadable_folder_is_reported(folder, monkeypatch):
    (folder / "secret").mkdir()
    real = os.scandir

    def scandir(path):
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    outcome = engine.lint(files.discover((str(folder),), lambda path: Options()), Cache(None), lambda done, of: None)
    assert outcome.results[str(folder / "secret")].problem == "the folder cannot be read"
    assert outcome.results[str(folder / "train.py")].findings


def test_a_missing_path_and_an_empty_folder_are_errors(folder, tmp_path):
    done = lint("nowhere.py", cwd=folder)
    assert done.returncode == 2
    assert "nowhere.py" in done.stderr
    (folder / "empty").mkdir()
    done = lint("empty", cwd=folder)
    assert done.returncode == 3
    assert "there is no Python file" in done.stdout


def test_the_cache_is_used_and_may_be_damaged_or_read_only(folder):
    first = lint(cwd=folder)
    (cache,) = (folder / ".syncheck_cache").glob("*.cache")
    assert str(folder) in cache.read_text()
    assert lint(cwd=folder).stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]
    (folder / "train.py").write_text(GOOD)
    assert lint(cwd=folder).returncode == 0
    (folder / "train.py").write_text(BAD)
    cache.write_text("{ damaged")
    assert lint(cwd=folder).returncode == 1
    cache.write_text(json.dumps({str(folder / "train.py"): {"time": 1}}))
    assert lint(cwd=folder).returncode == 1
    (folder / ".syncheck_cache").chmod(0o500)
    assert lint(cwd=folder).returncode == 1
    (folder / ".syncheck_cache").chmod(0o700)


def test_two_runs_can_share_a_cache(folder):
    for number in range(20):
        (folder / f"more{number}.py").write_text(BAD)
    command = [warm.PYTHON, "-m", "syncheck", "lint", "--output-format", "concise"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    running = [
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)
    ]
    outputs = {process.communicate()[0] for process in running}
    assert len(outputs) == 1
    assert outputs.pop().count("SYN101") == 21


def test_statistics_report_that_there_is_nothing_to_check(tmp_path):
    done = lint("--statistics", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "incomplete: nothing to check: there is no Python file\n"


def test_statistics_count_rules(folder):
    done = lint("--statistics", cwd=folder)
    assert done.stdout.split() == ["1", "SYN101", "unordered-read"]
    assert done.returncode == 1


def watching(folder, *options):
    command = [warm.PYTHON, "-u", "-m", "syncheck", "lint", "--watch", *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)


def test_a_watch_can_show_statistics(folder):
    with watching(folder, "--statistics") as process:
        assert process.stdout.readline().split() == ["1", "SYN101", "unordered-read"]
        process.terminate()


def test_a_watch_lints_again_when_a_file_changes(folder):
    with watching(folder, "--output-format", "concise") as process:
        assert "train.py:5" in process.stdout.readline()
        assert process.stdout.readline() == "[*] 1 fixable with --fix\n"
        time.sleep(1)
        (folder / "fine.py").write_text("#\n" + BAD)
        assert "fine.py:6" in process.stdout.readline()
        process.terminate()


def test_reports_can_be_json_github_gitlab_or_junit(folder):
    found = json.loads(lint("--output-format", "json", cwd=folder).stdout)
    (finding,) = found["findings"]
    assert (finding["half"], finding["rule"], finding["path"], finding["line"]) == ("lint", "SYN101", "train.py", 5)
    github = lint("--output-format", "github", cwd=folder).stdout
    assert github.startswith("::error file=train.py,line=5,endLine=5,col=9,endColumn=14,title=SYN101 unordered-read::")
    (entry,) = json.loads(lint("--output-format", "gitlab", cwd=folder).stdout)
    assert entry["location"] == {"path": "train.py", "lines": {"begin": 5, "end": 5}}
    assert entry["severity"] == "critical"
    suites = ElementTree.fromstring(lint("--output-format", "junit", cwd=folder).stdout)
    assert suites.find("testsuite/testcase/failure") is not None
    clean = ElementTree.fromstring(lint("fine.py", "--output-format", "junit", cwd=folder).stdout)
    assert clean.get("failures") == "0"


def test_a_report_can_be_written_to_a_file(folder):
    done = lint("--output-format", "sarif", "--output", "report.sarif", cwd=folder)
    assert (done.stdout, done.returncode) == ("", 1)
    (run,) = json.loads((folder / "report.sarif").read_text())["runs"]
    (result,) = run["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (result["ruleId"], region["startLine"], region["startColumn"]) == ("SYN101", 5, 9)
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 3


def test_a_cached_file_is_shown_under_the_requested_path(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "book.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": BAD}]}))
    spellings = [[f"{prefix}train.py", f"{prefix}book.ipynb"] for prefix in ("", "./", f"{folder}/")]

    def places_in(paths, cache):
        report = engine.report_of(engine.lint(paths, cache, lambda *_: None), lambda _: Options())
        return [(f.location, f.related, f.fix) for f in report.findings]

    for first in spellings:
        cache = folder / f"cache{spellings.index(first)}"
        fresh = places_in(first, Cache(cache))
        assert [location.frame.path for location, *_ in fresh] == ["book.ipynb:cell 1", "train.py"]
        for other in spellings:
            assert places_in(other, Cache(cache)) == fresh


def children(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_workers_exit_when_the_linter_is_killed(folder):
    source = "import torch\n" + "".join(
        BAD.replace("import torch\n", f"def f{n}():\n").replace("\n", "\n    ") + "\n" for n in range(200)
    )
    for number in range(40):
        (folder / f"more{number}.py").write_text(source)
    command = [sys.executable, "-m", "syncheck", "lint", "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        wait_until(lambda: children(process.pid) or process.poll() is not None)
        workers = children(process.pid)
        assert workers
        process.kill()
    wait_until(lambda: not any(Path("/proc", worker).exists() for worker in workers))


def test_files_that_the_settings_exclude_do_not_block_a_commit(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\nexclude = ["train.py"]\n')
    done = lint("--force-exclude", "train.py", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the settings exclude 1 file" in done.stdout
    (folder / "empty").mkdir()
    assert lint("--force-exclude", "empty", cwd=folder).returncode == 3
