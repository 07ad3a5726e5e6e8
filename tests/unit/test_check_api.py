"""`syncheck.check()` inside a program, on simulated GPUs."""

import subprocess
from pathlib import Path

import pytest
import torch

import syncheck
from syncheck.errors import BackendError, ConfigError
from tests import warm

RACE = """
import torch
{before}
with syncheck.check(backend="sim"{options}) as report:
    side = torch.cuda.Stream()
    x = torch.ones(1024, device="cuda")
    with torch.cuda.stream(side):
        y = x * 2
print(report.codes, bool(report), report.summary.operators)
"""


def run(code: str, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text("import syncheck\n" + code)
    return warm.run(*command, "program.py", folder=folder) if command else warm.run("program", folder=folder)


def program(before: str = "", options: str = "") -> str:
    return RACE.format(before=before, options=options)


def test_a_block_is_checked_and_its_report_is_complete_afterwards(tmp_path):
    done = run(program(), folder=tmp_path)
    assert done.stdout == "('SYN101',) True 2\n", done.stderr


def test_rules_can_be_ignored(tmp_path):
    assert run(program(options=", ignore=['SYN1']"), folder=tmp_path).stdout == "() False 2\n"


def test_a_report_prints_like_the_output_of_run(tmp_path):
    done = run(program() + "print(report)\n", folder=tmp_path)
    assert "error[SYN101] unordered-read" in done.stdout
    assert "program.py:9:13" in done.stdout


def test_nothing_remains_patched_after_the_block(tmp_path):
    done = run(program() + "print(torch.cuda.is_available())\n", folder=tmp_path)
    assert done.stdout.endswith("False\n")


def test_an_error_in_the_block_propagates_and_findings_are_kept(tmp_path):
    code = program().replace("        y = x * 2\n", "        y = x * 2\n    raise ValueError('mine')\n")
    code = code.replace("with syncheck", "try:\n  with syncheck").replace("\n    ", "\n      ")
    code = code.replace("\nprint", "\nexcept ValueError as error:\n  print(error)\nprint")
    done = run(code, folder=tmp_path)
    assert done.stdout == "mine\n('SYN101',) True 2\n", done.stderr


def test_a_nested_block_has_its_own_findings_and_shares_them(tmp_path):
    code = """
import torch
with syncheck.check(backend="sim") as outer:
    side = torch.cuda.Stream()
    x, z = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")
    with torch.cuda.stream(side):
        y = x * 2
    with syncheck.check() as inner:
        other = torch.cuda.Stream()
        with torch.cuda.stream(other):
            w = z * 2
print(inner.codes, [f.location.frame.line for f in inner.findings], outer.codes)
"""
    done = run(code, folder=tmp_path)
    assert done.stdout == "('SYN101',) [12] ('SYN101', 'SYN101')\n", done.stderr


def test_a_block_under_syncheck_run_is_part_of_its_report(tmp_path):
    done = run(program(), "syncheck", "run", "--backend", "sim", "--output-format", "concise", folder=tmp_path)
    assert done.stdout == "('SYN101',) True 2\n", done.stderr
    assert "program.py:9:13: SYN101" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "gpu"}, {"select": ["SYN999"]}, {"devices": 0}, {"devices": "two"}, {"devices": 100},
        {"max_findings": -1}, {"max_findings": "few"},
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(options):
    with pytest.raises(ConfigError), syncheck.check(**options):
        pass


def test_the_cuda_backend_is_rejected_without_gpus():
    with pytest.raises(BackendError, match="CUDA"), syncheck.check(backend="cuda"):
        pass


def test_an_unknown_attribute_of_the_package_is_an_error():
    with pytest.raises(AttributeError, match="chek"):
        _ = syncheck.chek  # type: ignore[attr-defined]


def test_reports_and_findings_have_readable_representations(tmp_path):
    code = (
        program()
        + "print(repr(report))\nprint(report.findings[0])\nprint(report.findings)\nprint(report._repr_html_())\n"
    )
    shown = run(code, folder=tmp_path).stdout
    assert "<syncheck report: 1 error in program.py>\n" in shown
    assert "\nprogram.py:9:13: error SYN101 unordered-read: stream `side` (cuda:0) reads `x`" in shown
    assert "\n  help: add `side.wait_stream(torch.cuda.default_stream())` before line 9\n" in shown
    assert "(<Finding SYN101 at program.py:9:13: stream `side`" in shown
    assert '<pre style="' in shown
    assert '<span style="' in shown
    assert "SYN101" in shown.partition("<pre")[2]
    assert "\x1b" not in shown


def test_dir_lists_the_public_api():
    assert dir(syncheck) == sorted(syncheck.__all__)


def test_an_error_note_contains_the_hint():
    with pytest.raises(ConfigError) as raised, syncheck.check(backend="smi"):
        pass
    assert f"hint: {raised.value.hint}" in raised.value.__notes__


# -- several blocks


def test_streams_and_tensors_of_an_earlier_block_can_be_used():
    kept = {}

    def step():
        side = kept.setdefault("stream", torch.cuda.Stream())
        with torch.cuda.stream(side):
            x = kept.setdefault("weights", torch.ones(8, device="cuda")) * 2
        return x.sum()  # no wait

    for _ in range(2):
        with syncheck.check(backend="sim") as report:
            step()
            assert kept["weights"].is_cuda
        assert report.codes == ("SYN101",)


def test_work_of_an_earlier_block_is_complete():
    kept = {}
    with syncheck.check(backend="sim") as report:
        kept["stream"] = torch.cuda.Stream()
        with torch.cuda.stream(kept["stream"]):
            kept["x"] = torch.ones(8, device="cuda")
    with syncheck.check(backend="sim") as later:
        assert kept["x"].sum().item() == 8
    assert (report.codes, later.codes) == ((), ())


def test_the_next_block_is_checked_although_one_failed(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("syncheck.sanitizer.session.Session.wait_stream", lambda *_: 1 / 0)
        with syncheck.check(backend="sim") as report:
            torch.cuda.Stream().wait_stream(torch.cuda.current_stream())
    assert report.incomplete
    with syncheck.check(backend="sim") as report:
        torch.ones(2, device="cuda")
    assert report.incomplete == ()
