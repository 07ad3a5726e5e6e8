"""The command line as a user meets it: each test is a tiny program and its output."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import syncheck as syncheck_package
from tests import warm

RACE = """
import torch
side = torch.cuda.Stream()
x = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""
CLEAN = "import torch\nprint(torch.ones(2, device='cuda').sum().item())\n"


def syncheck(*arguments, cwd=None):
    """Run a command in a process in which torch is already imported."""
    return warm.run("syncheck", *map(str, arguments), folder=cwd or Path.cwd())


def started(*arguments, cwd=None, **kwargs):
    """Run a command in a fresh process, optionally with its own environment."""
    command = [warm.PYTHON, "-m", "syncheck", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, check=False, **kwargs)


@pytest.fixture
def script(tmp_path):
    def write(source, name="train.py"):
        path = tmp_path / name
        path.write_text(source)
        return path

    return write


def test_help_rules_and_explain_import_neither_torch_nor_libcst():
    code = (
        "import sys; sys.argv = ['syncheck', *{0}]; from syncheck.cli.app import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code, e.code\n"
        "assert not {{'torch', 'libcst'}} & sys.modules.keys()"
    )
    for arguments in (["--help"], ["rules"], ["explain", "SYN101"], ["run", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_rules_as_json_have_name_level_and_halves():
    table = json.loads(syncheck("rules", "--output-format", "json").stdout)
    first = table[0]
    assert (first["code"], first["name"], first["level"]) == ("SYN101", "unordered-read", "error")
    assert "run" in first["halves"]
    assert next(row for row in table if row["code"] == "SYN604")["halves"] == ["run"]


def test_explain_prints_the_page_with_its_examples():
    page = syncheck("explain", "unordered-read").stdout
    assert "SYN101" in page
    assert "Why it matters" in page
    assert "wait_stream" in page


def test_a_misspelled_rule_name_gets_a_suggestion():
    done = syncheck("explain", "unorderd-read")
    assert done.returncode == 2
    assert "unordered-read" in done.stderr


def test_a_race_is_shown_with_both_places_and_the_line_to_add(script):
    done = syncheck("run", script(RACE))
    assert done.returncode == 1
    assert done.stdout == ""
    for part in (
        "SYN101",
        "train.py:6",
        "y = x * 2",
        "x = torch.ones",
        "side.wait_stream(torch.cuda.default_stream())",
    ):
        assert part in done.stderr


def test_a_clean_program_keeps_its_output_and_exits_with_0(script):
    done = syncheck("run", script(CLEAN))
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert "no findings" in done.stderr


def test_the_json_report_has_the_published_shape(script):
    done = syncheck("run", "--output-format", "json", script(RACE))
    report = json.loads(done.stdout)
    finding = report["findings"][0]
    assert report["version"] == 1
    assert (finding["rule"], finding["level"], finding["half"], finding["line"]) == ("SYN101", "error", "run", 6)
    assert finding["related"][0]["line"] == 4


def test_the_report_file_is_written_even_if_the_program_changes_directory(script, tmp_path):
    path = script("import os\nos.chdir('/')\n" + RACE)
    done = syncheck("run", "--output", "report.json", "--output-format", "json", path, cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads((tmp_path / "report.json").read_text())["findings"]


def test_a_full_disk_loses_no_finding(script):
    done = syncheck("run", "--output", "/dev/full", script(RACE))
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "SYN101" in done.stderr


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 1),
        (("--ignore", "SYN101"), 0),
        (("--ignore", "SYN1"), 0),
        (("--select", "SYN2,SYN3"), 0),
        (("--select", "unordered-read"), 1),
        (("--fail-on", "error"), 1),
    ],
)
def test_rule_selection_determines_findings_and_exit_status(script, options, status):
    assert syncheck("run", *options, script(RACE)).returncode == status


def test_max_findings_reports_how_many_are_hidden(script):
    more = RACE + "third = torch.cuda.Stream()\nwith torch.cuda.stream(third):\n    z = x * 3\n"
    done = syncheck("run", "--max-findings", "1", script(more))
    assert done.returncode == 1
    assert "hidden" in done.stderr


def test_fail_fast_ends_the_program_at_the_first_failing_finding(script):
    done = syncheck("run", "--fail-fast", script(RACE + "print('went on')\n"))
    assert done.returncode == 1
    assert "went on" not in done.stdout
    assert "SYN101" in done.stderr


def test_fail_fast_loses_nothing_that_the_program_has_written(script, tmp_path):
    log = tmp_path / "log.txt"
    done = syncheck("run", "--fail-fast", script(f"log = open({str(log)!r}, 'w')\nlog.write('step 1')\n" + RACE))
    assert (done.returncode, log.read_text()) == (1, "step 1")


def test_a_baseline_that_cannot_be_written_is_an_error_before_the_program_runs(script, tmp_path):
    missing = str(tmp_path / "missing" / "known.json")
    done = syncheck("run", "--baseline", missing, "--write-baseline", script("print('started')\n"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid value for --baseline: cannot write" in done.stderr


def test_stacks_show_the_callers(script):
    nested = "import torch\nside = torch.cuda.Stream()\ndef inner(x):\n    return x * 2\ndef outer(x):\n"
    nested += "    with torch.cuda.stream(side):\n        return inner(x)\nouter(torch.ones(9, device='cuda'))\n"
    path = script(nested)
    assert "outer" in syncheck("run", "--stacks", path).stderr
    assert "in outer" not in syncheck("run", path).stderr


# -- programs that end abnormally


@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise ValueError('mine')", 1), ("import sys; sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("exit()", 1)],
)
def test_findings_are_shown_however_the_program_ends(script, ending, status):
    done = syncheck("run", script(RACE + ending + "\n"))
    assert done.returncode == status
    assert "SYN101" in done.stderr


def test_a_program_that_fails_is_not_called_free_of_findings(script):
    done = syncheck("run", script(CLEAN + "raise ValueError('mine')\n"))
    assert done.returncode == 1
    assert "syncheck: no findings, but the check is incomplete\n" in done.stderr
    assert "incomplete: the program failed (ValueError), so the rest of it did not run\n" in done.stderr
    assert "incomplete" not in syncheck("run", script(CLEAN + "raise SystemExit(2)\n")).stderr


def test_os_exit_with_0_still_fails_on_findings(script):
    assert syncheck("run", script(RACE + "import os; os._exit(0)\n")).returncode == 1


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGINT, "the program was interrupted, so the rest of it did not run"),
        (signal.SIGTERM, "SIGTERM ended the program, so the rest of it did not run"),
    ],
)
def test_a_signal_shows_the_findings_and_ends_the_process_by_that_signal(script, number, reason):
    path = script(RACE + "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "syncheck", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -number
    assert "SYN101" in errors
    assert f"incomplete: {reason}\n" in errors


def test_a_forked_child_prints_no_report_of_its_own(script):
    done = syncheck("run", script(RACE + "import os\nif os.fork():\n    os.wait()\n"))
    assert done.returncode == 1
    assert done.stderr.count("syncheck: 1 error") == 1


def test_a_program_without_gpu_work_is_reported_as_unchecked(script):
    done = syncheck("run", script("print('hello')\n"))
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert done.stderr == "syncheck: nothing to check: the program launched no GPU work\n"


def test_arguments_and_module_runs_work_as_in_python(script, tmp_path):
    script("import sys\nimport torch\ntorch.ones(1, device='cuda')\nprint(sys.argv[1:], __name__)\n", "tool.py")
    done = syncheck("run", "-m", "tool", "--devices", "9", "-m", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "['--devices', '9', '-m'] __main__\n")


def test_classes_of_the_script_can_be_pickled_and_spawned(script):
    source = """
import multiprocessing, pickle, torch
class Thing:
    pass
def work(value):
    return value + 1
if __name__ == "__main__":
    assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
    torch.ones(1, device="cuda")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
"""
    done = syncheck("run", script(source))
    assert done.stdout == "[2, 3]\n", done.stderr


# -- invalid input


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("run", "no_such.py"), 2, "no such file"),
        (("run", "no_such.txt"), 2, "to run a module, give -m NAME"),
        (("run", "."), 2, "__main__"),
        (("run", "--select", "SYN1O1", "x.py"), 2, "SYN101"),
        (("run", "--output-format", "jsn", "x.py"), 2, "json"),
        (("run", "--backend", "gpu", "x.py"), 2, "sim"),
        (("run", "--trace", "/nonexistent/x", "x.py"), 2, "no such folder: '/nonexistent'"),
        (("run", "--backned", "sim", "x.py"), 2, "did you mean --backend?"),
        (("run", "--devices", "0", "x.py"), 2, "from 1 to 64"),
        (("run", "--hang-timeout", "nan", "x.py"), 2, "expected seconds"),
        (("x.py",), 2, "syncheck run x.py"),
        (("x.ipynb",), 2, "syncheck lint x.ipynb"),
        (("run", "x.ipynb"), 2, "'x.ipynb' is a notebook, not a script"),
        (("lnt",), 2, "did you mean lint?"),
        (("run",), 2, "missing argument SCRIPT"),
        (("run", "--trace"), 2, "missing value for --trace\n  hint: `syncheck run --help`"),
        (("run", "--backend", "cuda", "x.py"), 3, "simulated"),
        (("run", "--steps", "5", "x.py"), 2, "FIRST:LAST"),
        (("run", "--steps", "5:x", "x.py"), 2, "FIRST:LAST"),
        (("run", "--steps", "5:5", "x.py"), 2, "LAST must be greater than FIRST"),
        (("run", "--budget", "0", "x.py"), 2, "write a share of the run's time: 5% or 0.05"),
        (("run", "--budget", "-5%", "x.py"), 2, "write a share of the run's time: 5% or 0.05"),
        (("run", "--budget", "200%", "x.py"), 2, "omit the budget to check everything"),
        (("run", "--backend", "simm", "x.py"), 2, "did you mean sim?"),
        (("run", "--backend", "xyz", "x.py"), 2, "syncheck run --help` lists the options"),
        (("run", "--budget", "abc", "x.py"), 2, "invalid value for --budget: 'abc'"),
        (("run", "--budget", "nan", "x.py"), 2, "invalid value for --budget: 'nan'"),
        (("run", "--budget", "5", "x.py"), 2, "write 5% or 0.05"),
        (("run", "--budget", "5%", "--steps", "2:3", "x.py"), 2, "--budget and --steps cannot be combined"),
        (("run", "--budget", "5%", "--trace", "t", "x.py"), 2, "--budget and --trace cannot be combined"),
        (("run", "--budget", "5%", "--times", "x.py"), 2, "--budget and --times cannot be combined"),
        (("run", "--budget", "5%", "--witness", "x.py"), 2, "--budget and --witness cannot be combined"),
        (("replay", "no_such.trace"), 2, "no such file: 'no_such.trace'"),
        (("replay", "x.py"), 3, "x.py: not a trace file\n"),
        (("run", "--schedule", "foo", "x.py"), 2, "invalid value for --schedule: 'foo' (not a schedule"),
        (("run", "--schedule", "", "x.py"), 2, "invalid value for --schedule: ''"),
    ],
)
def test_wrong_usage_explains_what_to_do(script, tmp_path, arguments, status, words):
    script(CLEAN, "x.py")
    script('{"cells": [], "metadata": null}', "x.ipynb")
    done = syncheck(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("run", "--backend BACKEND Real GPUs (cuda) or simulated ones (sim); auto: real ones if there are any."),
        ("run", "[choices: auto, cuda, sim; default: auto]"),
        ("run", "after this many seconds; 0: never. [default: 300]"),
        ("lint", "input. [default: .]"),
        ("lint", "File name for standard input. [default: stdin.py]"),
        ("rules", "--output-format FORMAT [choices: text, json; default: text]"),
    ],
)
def test_help_shows_choices_and_defaults(command, line):
    shown = started(command, "--help", env=os.environ | {"COLUMNS": "200"}).stdout
    assert line in " ".join(shown.replace("│", " ").split())


def test_the_help_of_run_begins_with_what_is_checked():
    shown = started("run", "--help", env=os.environ | {"COLUMNS": "80"}).stdout
    panels = re.findall("─ ([A-Z][A-Za-z ]+) ─", shown)
    assert panels[:4] == ["Arguments", "Options", "GPUs", "Run"]
    assert panels[-1] == "Settings"


@pytest.mark.parametrize("command", ["run", "lint", "replay", "merge"])
def test_the_help_shows_whole_options_at_80_columns(command):
    assert "…" not in started(command, "--help", env=os.environ | {"COLUMNS": "80"}).stdout


def test_no_command_prints_the_help_without_an_error():
    done = syncheck()
    assert done.returncode == 2
    assert "Usage: " in done.stdout + done.stderr
    assert "error" not in done.stderr


def test_merging_a_folder_without_records_explains_how_ranks_record(tmp_path):
    done = syncheck("merge", tmp_path)
    assert done.returncode == 3
    assert f"no rank records in '{tmp_path}'" in done.stderr
    assert "--ranks-dir" in done.stderr


def test_a_syntax_error_names_the_line(script):
    done = syncheck("run", script("x = (\n"))
    assert done.returncode == 3
    assert "train.py:1" in done.stderr


def test_an_unreadable_script_is_named(script):
    path = script(CLEAN)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything: use something that even root cannot run
        path.unlink()
        path.mkdir()
    done = syncheck("run", path)
    assert done.returncode == 2
    assert str(path.name) in done.stderr


def test_a_missing_torch_explains_what_to_install(script, tmp_path):
    hidden = tmp_path / "torch.py"
    hidden.write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    done = started("run", script(CLEAN), env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    assert "pip install" in done.stderr


def test_a_torch_that_is_too_old_is_rejected():
    code = "import torch; torch.__version__ = '2.7.1'\n"
    code += "from syncheck.instrument.torch_version import check_torch\ncheck_torch()"
    done = subprocess.run([warm.PYTHON, "-c", code], capture_output=True, text=True, check=False)
    assert "torch 2.7.1 is too old" in done.stderr


def test_doctor_names_torch_and_the_backend():
    done = syncheck("doctor")
    assert done.returncode == 0
    assert "torch" in done.stdout
    assert "sim" in done.stdout


def test_the_package_declares_its_types():
    assert (Path(syncheck_package.__file__).parent / "py.typed").exists()


def test_a_prefix_lists_its_rules():
    for prefix in ("SYN2", "syn2"):
        done = syncheck("explain", prefix)
        assert done.returncode == 0
        assert re.findall(r"(?m)^\w+", done.stdout) == ["SYN201", "SYN202", "SYN203"]


@pytest.mark.parametrize("arguments", [("rules",), ("explain", "SYN2"), ("config",)])
def test_tables_fit_the_terminal(arguments, tmp_path):
    def widest(**environment):
        lines = started(*arguments, cwd=tmp_path, env=os.environ | environment).stdout.splitlines()
        return max(len(line) for line in lines if " " in line.strip())  # a longer word gets its own line

    assert widest(COLUMNS="40") <= 40
    assert 40 < widest(COLUMNS="") <= 80
    if arguments != ("config",):
        assert widest(COLUMNS="120") > 80


def test_tables_can_have_colors():
    plain, colored = ({"FORCE_COLOR": "", "NO_COLOR": ""} | wanted for wanted in ({}, {"FORCE_COLOR": "1"}))
    assert "\x1b" not in started("rules", env=os.environ | plain).stdout
    assert "\x1b[1;31mSYN101\x1b[0m  unordered-read" in started("rules", env=os.environ | colored).stdout


def test_options_after_the_script_are_pointed_out(script):
    path = script(CLEAN)
    done = syncheck("run", "--backend", "sim", path, "--devices", "4", "--select=SYN1", "--epochs")
    assert done.returncode == 0
    words = " ".join(done.stderr.split())
    assert "--devices and --select were passed to the program: options of syncheck go before the script" in words


@pytest.mark.parametrize(
    "source", ["torch.xpu.Stream()", "torch.ones(2, device='cpu' if torch.xpu.is_available() else 'cpu')"]
)
def test_a_program_for_other_gpus_gets_a_hint(script, source):
    hint = "note: the program uses torch.xpu: simulate its GPUs with --device-type xpu\n"
    path = script(f"import torch\n{source}\n")
    assert hint in syncheck("run", "--backend", "sim", path).stderr
    assert hint not in syncheck("run", "--backend", "sim", "--device-type", "xpu", path).stderr
    assert hint not in syncheck("run", "--backend", "sim", script("print('torch')\n")).stderr


def test_the_programs_own_options_are_not_pointed_out(script):
    path = script(
        CLEAN + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--output')\np.parse_args()\n"
    )
    done = syncheck("run", "--backend", "sim", path, "--output", "x")
    assert done.returncode == 0
    assert "passed to the program" not in done.stderr


def test_an_invalid_range_of_steps_is_rejected(script):
    done = syncheck("run", "--steps", "foo", script(CLEAN))
    assert "invalid value for --steps: 'foo' (expected FIRST:LAST)\n" in done.stderr


def test_errors_can_be_caught_by_their_public_names():
    with pytest.raises(syncheck_package.ConfigError) as caught, syncheck_package.check(backend="tpu"):
        pass
    assert isinstance(caught.value, syncheck_package.SyncheckError)
    assert {"BackendError", "TraceError", "ScriptError", "RecordError"} <= set(syncheck_package.__all__)


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        ([], "[OPTIONS] COMMAND [ARGS]..."), (["run"], "run [OPTIONS] SCRIPT [ARGS]..."),
        (["lint"], "lint [OPTIONS] [PATH]..."), (["config"], "config [OPTIONS] [PATH]"), (["rules"], "rules [OPTIONS]"),
    ],
)  # fmt: skip
def test_help_shows_arguments_as_written_and_no_types(arguments, usage):
    printed = syncheck(*arguments, "--help").stdout
    assert usage in next(line for line in printed.splitlines() if "Usage:" in line)
    assert not [line for line in printed.splitlines() if "<bool>" in line or "<str>" in line or "<list" in line]


def test_an_invalid_choice_is_named_without_the_error_class():
    done = syncheck("run", "--backend", "foo", "train.py")
    assert done.returncode == 2
    assert "invalid value for --backend: 'foo' is not one of" in done.stderr
