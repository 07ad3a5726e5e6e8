"""Suppressed, known and third-party findings: comments, blocks, settings, baselines and installed packages."""

import json
import os
import textwrap

import pytest

from tests import warm

RACE = """
import sys
import torch
import syncheck

side, kept = torch.cuda.Stream(), []


def race():
    x = torch.ones(4, device="cuda"); kept.append(x)
    with torch.cuda.stream(side):
        return x * 2
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(RACE + "\n\nrace()\n")
    return tmp_path


def syncheck(folder, *arguments, path=""):
    return warm.run("syncheck", *map(str, arguments), folder=folder, path=path)


def run(folder, *options, body=None, path=""):
    if body is not None:
        (folder / "train.py").write_text(RACE + textwrap.dedent(body))
    done = syncheck(folder, "run", "--backend", "sim", "--output-format", "json", *options, "train.py", path=path)
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout)
    return [(f["rule"], f["line"]) for f in report["findings"]], report


def lint(folder, *options):
    done = syncheck(folder, "lint", "--no-cache", "--output-format", "json", *options)
    assert done.returncode in {0, 1}, done.stderr
    report = json.loads(done.stdout)
    return [(f["rule"], f["line"]) for f in report["findings"]], report


FOUND = [("SYN101", 12)]


def test_without_a_comment_both_halves_report_the_race(folder):
    assert run(folder)[0] == FOUND
    assert lint(folder)[0] == FOUND


@pytest.mark.parametrize(
    ("comment", "in_run", "in_lint"),
    [
        ("# syncheck: ignore[SYN101] a reason", [], []),
        ("# syncheck: ignore", [], []),
        ("# syncheck: ignore[SYN1]", [], []),
        ("# syncheck: ignore[unordered-read]", [], []),
        ("# syncheck: ignore-run[SYN101]", [], FOUND),
        ("# syncheck: ignore-lint[SYN101]", FOUND, []),
        ("# syncheck: ignore[SYN201]", FOUND, FOUND),
        ("# syncheck: ignored", FOUND, FOUND),
    ],
)
def test_a_comment_suppresses_the_rules_it_names(folder, comment, in_run, in_lint):
    (folder / "train.py").write_text(RACE.replace("return x * 2", f"return x * 2  {comment}") + "\n\nrace()\n")
    assert run(folder)[0] == in_run
    assert lint(folder)[0] == in_lint


def test_a_file_comment_suppresses_the_whole_file(folder):
    (folder / "train.py").write_text("# syncheck: ignore-file[SYN101]" + RACE + "\n\nrace()\n")
    assert run(folder)[0] == []
    assert lint(folder)[0] == []


def test_a_comment_inside_a_string_has_no_effect(folder):
    body = RACE.replace("return x * 2", 'return x * len("# syncheck: ignore")')
    (folder / "train.py").write_text(body + "\n\nrace()\n")
    assert run(folder)[0] == FOUND


def test_unused_comments_are_reported_by_the_half_that_can_tell(folder):
    _, report = run(
        folder,
        body="""
        y = torch.ones(2, device="cuda")  # syncheck: ignore[SYN101]
        if len(sys.argv) > 9:
            z = torch.ones(2, device="cuda")  # syncheck: ignore[SYN101] was not executed: unknown
        w = torch.ones(2, device="cuda")  # syncheck: ignore-lint[SYN101]
        """,
    )
    assert report["notes"] == ["train.py:14: unused `syncheck: ignore[SYN101]`"]
    _, report = lint(folder)
    lines = [note.split(":")[1] for note in report["notes"] if ": unused" in note]
    assert lines == ["14", "16", "17"]


def test_a_comment_needed_only_by_lint_is_not_unused_in_a_run(folder):
    _, report = run(
        folder,
        body="""
        weight = torch.ones(4, device="cuda", requires_grad=True)
        total = 0.0
        for _ in sys.argv * 3:
            loss = (weight * 2).sum()
            loss.backward()
            total += loss.item()  # syncheck: ignore[SYN801]
        """,
    )
    assert report["notes"] == []


def test_a_block_suppresses_its_callees_in_both_halves(folder):
    (folder / "train.py").write_text(RACE + '\n\nwith syncheck.ignore("SYN1"):\n    race()\n')
    assert run(folder)[0] == []
    assert lint(folder)[0] == []
    (folder / "train.py").write_text(RACE + '\n\nwith syncheck.ignore("SYN2"):\n    race()\n')
    found, report = run(folder)
    assert found == FOUND
    assert report["notes"] == ["train.py:15: unused `syncheck.ignore(SYN201, SYN202, SYN203)`"]
    assert lint(folder)[0] == FOUND


def test_a_block_applies_only_to_its_thread(folder):
    found, _ = run(
        folder,
        body="""
        import threading

        inside, outside = threading.Event(), threading.Event()

        def other():
            inside.wait()
            race()
            outside.set()

        thread = threading.Thread(target=other)
        thread.start()
        with syncheck.ignore("SYN101"):
            inside.set()
            outside.wait()
        thread.join()
        """,
    )
    assert found == FOUND


def test_a_replay_respects_blocks_and_comments(folder):
    body = RACE.replace("return x * 2", "return x * 2  # syncheck: ignore")
    (folder / "train.py").write_text(
        body + '\n\nrace()\nx = torch.ones(2, device="cuda")\nwith syncheck.ignore("SYN1"), torch.cuda.stream(side):\n'
        "    x + 1\nwith torch.cuda.stream(side):\n    torch.cuda.current_stream().synchronize()\n"
    )
    assert run(folder, "--trace", "run.trace")[0] == []
    (folder / "train.py").unlink()  # as if on another machine
    done = syncheck(folder, "replay", "--output-format", "json", "run.trace")
    assert json.loads(done.stdout)["findings"] == [], done.stderr


def test_an_ignored_finding_does_not_trigger_fail_fast(folder):
    body = (
        RACE.replace("return x * 2", "return x * 2  # syncheck: ignore") + "\n\nrace()\nprint('end', file=sys.stderr)\n"
    )
    (folder / "train.py").write_text(body)
    done = syncheck(folder, "run", "--backend", "sim", "--fail-fast", "train.py")
    assert done.returncode == 0
    assert "end" in done.stderr


def test_an_unknown_rule_in_a_block_is_named(folder):
    (folder / "train.py").write_text('import syncheck\nwith syncheck.ignore("SYN999"):\n    pass\n')
    done = syncheck(folder, "run", "--backend", "sim", "train.py")
    assert done.returncode == 1
    assert "SYN999" in done.stderr


def test_settings_from_the_file_apply_to_runs(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\nbackend = "sim"\ndevices = 3\nignore = ["SYN1"]\n')
    done = syncheck(folder, "run", "--output-format", "json", "train.py")
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["summary"]["backend"] == "3 simulated GPUs"
    assert run(folder, "--devices", "1")[1]["summary"]["backend"] == "1 simulated GPU"
    (folder / "pyproject.toml").write_text('[tool.syncheck.per-file-ignores]\n"tr*.py" = ["SYN101"]\n')
    assert run(folder)[0] == []


def test_config_shows_the_origin_of_each_value(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\ndevices = 3\nper-file-ignores = { "a/*" = ["SYN1"] }\n')
    done = syncheck(folder, "config", "--output-format", "json")
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert rows["devices"] == ("3", str(folder / "pyproject.toml"))
    assert rows["per-file-ignores"][0] == '{ "a/*" = ["SYN1"] }'
    assert rows["backend"] == ('"auto"', "default")
    assert "devices" in syncheck(folder, "config").stdout
    assert syncheck(folder, "config", "nowhere").returncode == 2
    (folder / "pyproject.toml").write_text("[tool.syncheck]\ndevises = 3\n")
    done = syncheck(folder, "config")
    assert done.returncode == 2
    assert "did you mean devices?" in done.stderr


@pytest.mark.parametrize("half", [run, lint])
def test_a_baseline_hides_known_findings_and_shows_new_ones(folder, half):
    with_baseline = ("--baseline", "known.json")
    found, report = half(folder, *with_baseline, "--write-baseline")
    assert (found, report["known"]) == ([], 1)
    moved = RACE.replace("def race", "# a new line\ndef race") + "\n\nrace()\n"
    (folder / "train.py").write_text(moved)
    assert half(folder, *with_baseline)[0] == []
    (folder / "train.py").write_text(
        moved + 'y = torch.ones(4, device="cuda")\nwith torch.cuda.stream(side):\n    y + 1\n'
    )
    assert half(folder, *with_baseline)[0] == [("SYN101", 19)]
    if half is run:
        assert syncheck(folder, "run", "--backend", "sim", *with_baseline, "train.py").returncode == 1


def test_fixed_findings_are_removed_from_the_baseline_when_it_is_written(folder):
    known = folder / "known.json"
    for half in (run, lint):
        half(folder, "--baseline", "known.json", "--write-baseline")
    assert {entry["half"] for entry in json.loads(known.read_text())["findings"]} == {"run", "lint"}
    fixed = RACE.replace("    with torch", "    side.wait_stream(torch.cuda.current_stream())\n    with torch")
    (folder / "train.py").write_text(fixed + "\n\nrace()\n")
    assert lint(folder, "--baseline", "known.json", "--select", "SYN2")[1]["notes"] == []
    before = known.read_text()
    expected = "1 known finding of known.json was not found; if it is fixed, --write-baseline removes it"
    for half in (run, lint):
        assert half(folder, "--baseline", "known.json")[1]["notes"] == [expected]
    assert known.read_text() == before
    lint(folder, "--baseline", "known.json", "--write-baseline")
    assert [entry["half"] for entry in json.loads(known.read_text())["findings"]] == ["run"]
    run(folder, "--baseline", "known.json", "--write-baseline")
    assert json.loads(known.read_text())["findings"] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no such baseline"), ("{", "cannot read"), ("[]", "is not a baseline"), ('{"version": 9}', "version 9")],
)
def test_an_invalid_baseline_is_reported(folder, text, words):
    if text is not None:
        (folder / "known.json").write_text(text)
    for command in (("run", "--baseline", "known.json", "train.py"), ("lint", "--baseline", "known.json")):
        done = syncheck(folder, *command)
        assert done.returncode == 2
        assert words in done.stderr
        assert "--write-baseline" in done.stderr
    assert "--baseline FILE" in syncheck(folder, "lint", "--write-baseline").stderr


def test_findings_in_installed_packages_are_abbreviated(folder, tmp_path_factory):
    installed = tmp_path_factory.mktemp("installed")
    package = installed / "site-packages" / "prefetching"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(RACE + "\n\ndef twice():\n    race()\n    race()\n")
    (folder / "sitecustomize.py").write_text(
        "import site\nfound = site.getsitepackages\n"
        f"site.getsitepackages = lambda *given: [*found(*given), {str(package.parent)!r}]\n"
    )
    body = "\nimport prefetching\nprefetching.twice()\n"
    path = f"{folder}{os.pathsep}{package.parent}"
    found, report = run(folder, body=body, path=path)
    assert [code for code, _ in found] == ["SYN101"]
    assert report["findings"][0]["package"] == "prefetching"
    done = syncheck(folder, "run", "--backend", "sim", "train.py", path=path)
    assert done.returncode == 1
    assert "error[SYN101] unordered-read: prefetching/__init__.py:12:16" in done.stderr
    assert "kept.append" not in done.stderr
    done = syncheck(folder, "run", "--backend", "sim", "--third-party", "full", "train.py", path=path)
    assert "prefetching.twice()" in done.stderr
    assert "^^^" in done.stderr
    assert run(folder, "--third-party", "off", path=path)[0] == []


def status(folder, *arguments):
    return syncheck(folder, *arguments).returncode


def test_fail_fast_ignores_known_findings(folder):
    run(folder, "--baseline", "known.json", "--write-baseline")
    more = 'y = torch.ones(4, device="cuda")\nwith torch.cuda.stream(side):\n    z = y + 1\nprint("end")\n'
    (folder / "train.py").write_text(RACE + "\n\nrace()\nprint('later')\n" + more)
    done = syncheck(folder, "run", "--backend", "sim", "--baseline", "known.json", "--fail-fast", "train.py")
    assert done.returncode == 1
    assert done.stdout == "later\n"
    assert "z = y + 1" in done.stderr


def test_a_limit_on_findings_does_not_change_the_status(folder):
    (folder / "train.py").write_text(
        "import torch\nfor _ in range(5):\n    torch.cuda.Stream()\n" + RACE + "\n\nrace()\n"
    )
    for command in (("run", "--backend", "sim", "--max-findings", "1", "train.py"), ("lint", "--max-findings", "1")):
        done = syncheck(folder, *command)
        assert done.returncode == 1, done.stdout
        assert "hidden" in done.stdout + done.stderr


def test_a_block_ends_with_its_task_or_generator(folder):
    found, _ = run(
        folder,
        body="""
        import asyncio

        async def quiet(seconds):
            with syncheck.ignore("SYN101"):
                await asyncio.sleep(seconds)

        async def both():
            await asyncio.gather(quiet(0.01), quiet(0.02))

        def turns():
            with syncheck.ignore("SYN101"):
                yield

        asyncio.run(both())
        one = turns()
        next(one)
        with syncheck.ignore("SYN101"):
            list(one)
        race()
        """,
    )
    assert found == FOUND


def test_a_block_applies_only_to_its_task(folder):
    found, _ = run(
        folder,
        body="""
        import asyncio

        async def quiet():
            with syncheck.ignore("SYN101"):
                await asyncio.sleep(0.05)

        async def racy():
            await asyncio.sleep(0.01)
            race()

        async def both():
            await asyncio.gather(quiet(), racy())

        asyncio.run(both())
        """,
    )
    assert found == FOUND


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# syncheck: ignore[SYN101", "its bracket is not closed"),
        ("# syncheck: ignore[]", "name a rule in its brackets"),
        ("# syncheck: ignore-run[ ]", "name a rule in its brackets"),
        ("# syncheck: ignore [SYN201]", ""),
        ("# syncheck: ignore[SYN10l]", "no rule matches"),
        ("# syncheck: ignore SYN101", "write `ignore[SYN101]`"),
        ("# syncheck: noqa[SYN101]", "write `# syncheck: ignore[...]`"),
        ("# syncheck ignore[SYN101]", "write `# syncheck: ignore[...]`"),
        ("# syncheck: ignore-all", "write `# syncheck: ignore[...]`"),
    ],
)
def test_a_malformed_comment_suppresses_nothing_and_is_reported(folder, comment, reason):
    (folder / "train.py").write_text(RACE.replace("return x * 2", f"return x * 2  {comment}") + "\n\nrace()\n")
    for half in (run, lint):
        found, report = half(folder)
        assert found == FOUND
        assert reason in report["notes"][0]
        assert ("` has no effect: " in report["notes"][0]) == bool(reason)
        assert not any("--remove-unused-ignores" in note for note in report["notes"][1:] if reason)


def test_only_syncheck_ignore_suppresses(folder):
    (folder / "mylib.py").write_text("import contextlib\n\n\ndef ignore(rule):\n    return contextlib.nullcontext()\n")
    body = RACE.replace("import syncheck", "from mylib import ignore") + '\n\nwith ignore("SYN101"):\n    race()\n'
    (folder / "train.py").write_text(body)
    assert lint(folder, "train.py")[0] == FOUND


def test_the_baseline_keeps_findings_of_unchecked_files(folder):
    known = ("--baseline", "known.json")
    cell = {
        "cell_type": "code",
        "source": RACE + "\n\nrace()\n",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    (folder / "n.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (folder / "other.py").write_text(RACE + "\n\nrace()\n")
    lint(folder, *known, "--write-baseline")
    assert lint(folder, *known, "train.py")[1]["notes"] == []
    (folder / "other.py").write_text(RACE + "\n\nrace()\ndef (\n")
    syncheck(folder, "lint", "--no-cache", *known)
    (folder / "other.py").write_text(RACE + "\n\nrace()\n")
    assert lint(folder, *known)[0] == []
    run(folder, *known, "--write-baseline")
    command = ("run", "--backend", "sim", *known)
    assert status(folder, *command, "--write-baseline", "other.py") == 0
    assert status(folder, *command, "train.py") == 0
    (folder / "nothing.py").write_text("raise SystemExit(0)\n")
    assert status(folder, *command, "--write-baseline", "nothing.py") == 3
    assert status(folder, *command, "train.py") == 0


def test_paths_are_relative_to_the_starting_directory(folder):
    (folder / "sub").mkdir()
    found, report = run(folder, body='import os\nos.chdir("sub")\nrace()\n')
    assert found == FOUND
    assert report["findings"][0]["path"] == "train.py"


def test_an_invalid_rule_in_the_settings_is_reported_before_the_run(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck.per-file-ignores]\n"a.py" = ["SYN999"]\n')
    (folder / "train.py").write_text("print('ran')\n")
    done = syncheck(folder, "run", "--backend", "sim", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "per-file-ignores" in done.stderr
    assert "SYN999" in done.stderr


def test_patterns_are_relative_to_the_settings_file(folder):
    (folder / "pyproject.toml").write_text('[tool.syncheck]\nexclude = ["pkg/gen/"]\n')
    (folder / "pkg" / "gen").mkdir(parents=True)
    (folder / "pkg" / "gen" / "a.py").write_text("x = 1\n")
    (folder / "pkg" / "b.py").write_text("x = 1\n")
    for where, argument in ((folder / "pkg", "."), (folder, "pkg"), (folder.parent, f"{folder.name}/pkg")):
        shown = syncheck(where, "lint", "--show-files", argument).stdout.split()
        assert [path.rpartition("/")[2] for path in shown] == ["b.py"]


def test_recording_a_trace_still_reports_unused_blocks(folder):
    (folder / "train.py").write_text(RACE + '\n\nwith syncheck.ignore("SYN2"):\n    race()\n')
    assert "unused `syncheck.ignore(" in syncheck(folder, "run", "--backend", "sim", "--trace", "t", "train.py").stderr


def test_each_process_of_a_job_writes_its_own_report(folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    syncheck(folder, "run", "--backend", "sim", "--output-format", "json", "--output", "report.json", "train.py")
    report = json.loads((folder / "report.rank2.json").read_text())
    assert [finding["rank"] for finding in report["findings"]] == [2]
