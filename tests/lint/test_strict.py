"""Findings of `syncheck lint --strict` in code like that of real libraries, and their stated assumptions."""

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from tests import warm


def found(source, *, is_strict=True):
    result = lint_source("m.py", Text("import torch\n" + textwrap.dedent(source)), is_strict=is_strict)
    assert not result.problem, result.problem
    return [(f.rule.code, f.location.frame.line, f.message.partition(", if ")[2]) for f in result.findings]


def only_strict(source):
    """Return the findings with the option, after checking that there are none without it."""
    assert found(source, is_strict=False) == []
    return found(source)


def levels(source):
    return {f.level.value for f in lint_source("m.py", Text("import torch\n" + source), is_strict=True).findings}


# -- devices


def test_a_tensor_argument_is_assumed_to_be_on_a_gpu():
    source = """
    class Layer:
        def __init__(self):
            self.side = torch.cuda.Stream()
        def forward(self, x: torch.Tensor):
            {wait}
            with torch.cuda.stream(self.side):
                y = torch.mm(x, x)
            torch.cuda.current_stream().wait_stream(self.side)
    """
    of_the_class = ("SYN105", 8, "")
    assert found(source.format(wait="pass"), is_strict=False) == [of_the_class]
    assert found(source.format(wait="pass")) == [of_the_class, ("SYN101", 9, "`x` is on a GPU")]
    assert found(source.format(wait="self.side.wait_stream(torch.cuda.current_stream())")) == []


def test_an_assumption_about_a_tensor_applies_to_tensors_computed_from_it():
    source = """
    def f(x: torch.Tensor, z: torch.Tensor):
        side = torch.cuda.Stream()
        with side:
            y = x + 1
        y.add_(1)
        side.wait_stream(torch.cuda.current_stream())
    """
    assert ("SYN103", 7, "`x` is on a GPU") in only_strict(source)


def test_an_unknown_device_is_assumed_to_be_a_gpu():
    source = """
    def f(device):
        side = torch.cuda.Stream()
        x = torch.ones(4, device=device)
        torch.cuda.set_stream(side)
        y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y
    """
    assert ("SYN101", 7, "`device` is a GPU") in only_strict(source)
    assert found(source.replace("device=device", "device='cpu'")) == []


# -- unknown code

PREFETCH = """
from elsewhere import {name}

def f():
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    {call}
    torch.cuda.current_stream().wait_stream(side)
"""


def test_unknown_code_is_assumed_to_use_its_arguments_immediately():
    assert only_strict(PREFETCH.format(name="work", call="work(y)")) == [("SYN101", 11, "`work(y)` does not wait")]


@pytest.mark.parametrize("name", ["wait_for", "synchronize", "print", "append", "Batch"])
def test_unknown_code_with_a_telling_name_is_not_reported(name):
    assert found(PREFETCH.format(name=name, call=f"{name}(y)")) == []


@pytest.mark.parametrize(
    "call", ["work(y, side)", "work(lambda: y)", "work([y, side])", "work(y, done_flag)", "work[1](y, flags)"]
)
def test_unknown_code_given_a_stream_callback_or_flag_may_wait(call):
    assert found(PREFETCH.format(name="work", call=call)) == []


def test_unknown_code_may_keep_its_arguments():
    source = """
    from elsewhere import work
    def f():
        side = torch.cuda.Stream()
        x = torch.ones(4, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(x)
        del x
    """
    assert found(source) == []


def test_unknown_code_between_a_launch_and_its_use_is_assumed_not_to_wait():
    source = PREFETCH.format(name="work", call="work(x)\n    print(y + 1)")
    assert ("SYN101", 12, "`work(x)` does not wait") in only_strict(source)


def test_a_clock_around_unknown_code_is_not_reported():
    source = """
    import time
    def f(work):
        x = torch.ones(4, device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        work(x)
        print(time.perf_counter() - start)
    """
    assert found(source) == []
    assert only_strict(
        source.replace("f(work)", "f(device)").replace('"cuda"', "device").replace("work", "torch.sum")
    ) == [("SYN701", 9, "`device` is a GPU")]


# -- branches

BRANCH = """
def f(sync, stream):
    s = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        y = x * 2
    {test}
        torch.cuda.current_stream().wait_stream(s)
    return y * 2
"""


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("if sync:", "`sync` is false"),
        ("if not sync:", "`sync` is true"),
        ("if stream is not None:", "`stream` is None"),
        ("if sync:\n        pass\n    else:", "`sync` is true"),
    ],
)
def test_a_branch_that_waits_is_assumed_not_to_run(test, text):
    source = BRANCH.format(test=test)
    assert only_strict(source) == [("SYN101", 11 + test.count("\n"), text)]


def test_a_branch_without_a_wait_is_not_an_assumption():
    assert (
        found(
            BRANCH.format(test="torch.cuda.current_stream().wait_stream(s)\n    if sync:\n        x.add_(1)\n    if 1:")
        )
        == []
    )


# -- the command


def run(folder, *arguments):
    command = [warm.PYTHON, "-m", "syncheck", "lint", "--output-format", "json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=300, check=False, env=environment
    )
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.py").write_text("import torch\n" + BRANCH.format(test="if sync:"))
    return tmp_path


def test_option_and_setting_are_equivalent_and_results_are_cached_separately(folder):
    assert run(folder)["findings"] == []
    (finding,) = run(folder, "--strict")["findings"]
    assert (finding["rule"], finding["level"]) == ("SYN101", "warning")
    assert finding["assumptions"][0] == "`sync` is false"
    assert run(folder)["findings"] == []
    (folder / "pyproject.toml").write_text("[tool.syncheck]\nstrict = true\n")
    assert run(folder)["findings"] == [finding]
    assert run(folder, "--no-strict")["findings"] == []


def test_comments_suppress_strict_findings(folder):
    run(folder, "--strict", "--add-ignores")
    assert "# syncheck: ignore[SYN101]" in (folder / "a.py").read_text()
    assert run(folder, "--strict", "--remove-unused-ignores")["findings"] == []
    assert "# syncheck: ignore[SYN101]" in (folder / "a.py").read_text()


def test_a_check_does_not_change_the_baseline(folder):
    run(folder, "--strict", "--baseline", "known.json", "--write-baseline")
    before = (folder / "known.json").read_bytes()
    run(folder, "--baseline", "known.json")
    assert (folder / "known.json").read_bytes() == before
    report = run(folder, "--strict", "--baseline", "known.json")
    assert (report["findings"], report["known"]) == ([], 1)


def test_a_baseline_written_without_the_option_keeps_strict_findings(folder):
    run(folder, "--strict", "--baseline", "known.json", "--write-baseline")
    assert run(folder, "--baseline", "known.json")["notes"] == []
    run(folder, "--baseline", "known.json", "--write-baseline")
    report = run(folder, "--strict", "--baseline", "known.json")
    assert (report["findings"], report["known"]) == ([], 1)
    (folder / "a.py").write_text("import torch\n")
    (note,) = run(folder, "--strict", "--baseline", "known.json")["notes"]
    assert note.startswith("1 known finding of known.json was not found")
    run(folder, "--strict", "--baseline", "known.json", "--write-baseline")
    assert json.loads((folder / "known.json").read_text())["findings"] == []


def test_strict_findings_are_not_fixed(folder):
    before = (folder / "a.py").read_text()
    run(folder, "--strict", "--fix", "--unsafe-fixes")
    assert (folder / "a.py").read_text() == before


def test_findings_without_the_option_are_unchanged():
    source = 's = torch.cuda.Stream()\nx = torch.ones(4, device="cuda")\nwith torch.cuda.stream(s):\n    y = x * 2\n'
    assert found(source) == found(source, is_strict=False) == [("SYN101", 5, "")]
    assert levels(source) == {"error"}
