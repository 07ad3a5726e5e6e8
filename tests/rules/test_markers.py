"""The test harness detects malformed markers, duplicate, missing and misplaced findings, and wrong exits."""

from collections import Counter
from pathlib import Path
from typing import Any

import markers
import pytest
import simulated
from markers import MarkerError, parse
from simulated import Runner

RACE = '''"""The side stream does not wait."""
import torch

side = torch.cuda.Stream()
x = torch.ones(8, device="cuda")
with torch.cuda.stream(side):
    y = x + 1{marker}
torch.cuda.synchronize()
'''


# -- reading markers


def test_a_program_without_markers_expects_nothing_and_needs_one_device() -> None:
    expected = parse("x = 1  # a comment, and expectations\n")
    assert (expected.run, expected.lint, expected.missed) == (Counter(), Counter(), Counter())
    assert expected.devices == 1


@pytest.mark.parametrize(
    ("comment", "run", "lint", "missed"),
    [
        ("# expect: SYN101", 1, 1, 0),
        ("# expect-run: SYN101", 1, 0, 0),
        ("# expect-lint: SYN101", 0, 1, 0),
        ("# miss-lint: SYN101", 0, 0, 1),
        ("# words  # expect-run: SYN101  # miss-lint: SYN101", 1, 0, 1),
        ("# expect: SYN101,SYN101", 2, 2, 0),
        ("# expect-run: SYN101  # expect-run: SYN101", 2, 0, 0),
    ],
)
def test_a_marker_counts_for_its_half(comment: str, run: int, lint: int, missed: int) -> None:
    expected = parse(f"import torch\nx = 1  {comment}\n")
    key = ("SYN101", 2)
    assert (expected.run[key], expected.lint[key], expected.missed[key]) == (run, lint, missed)


def test_several_codes_on_one_line_are_kept_apart() -> None:
    assert parse("x = 1  # expect: SYN101, SYN201\n").run == Counter([("SYN101", 1), ("SYN201", 1)])


def test_a_marker_in_a_multiline_call_applies_to_its_own_line() -> None:
    assert parse("f(  # expect: SYN101\n    1,\n)\n").run == Counter([("SYN101", 1)])
    assert parse("f(\n    1,\n)  # expect: SYN101\n").run == Counter([("SYN101", 3)])


def test_markers_in_strings_are_ignored() -> None:
    assert parse('"""# expect: SYN101"""\nx = "# expect: SYN101"\n').codes == frozenset()


@pytest.mark.parametrize("header", ["# devices: 2\n", '"""Doc."""\n# devices: 2\n', '# devices: 2\n"""Doc."""\n'])
def test_the_header_sets_the_number_of_devices(header: str) -> None:
    assert parse(f"{header}import torch\n").devices == 2


@pytest.mark.parametrize(
    "source",
    [
        "x = 1  # expect SYN101",
        "x = 1  # expect: SYN1",
        "x = 1  # expect: 101",
        "x = 1  # expect:",
        "x = 1  # expects: SYN101",
        "x = 1  # Expect: SYN101",
        "x = 1  # expect-sim: SYN101",
        "x = 1  # miss-run: SYN101",
        "x = 1  # miss: SYN101",
        "x = 1  # expect: SYN101 SYN102",
        "x = 1  # expect: SYN101,",
        "x = 1  # expect: SYN101 because",
        "x = 1  # expct: SYN101",
        "x = 1  # SYN101",
        "x = 1  # expect: SYN999",
        "x = 1  # expect: unordered-read",
        "# expect: SYN101",
        "# devices: two",
        "# devices: 0",
        "# devices: 99",
        "# devices = 2",
        "# devices: 2\n# devices: 2",
        "x = 1  # devices: 2",
        "x = 1\n# devices: 2",
    ],
)
def test_a_malformed_marker_is_an_error_with_file_and_line(source: str) -> None:
    with pytest.raises(MarkerError, match=r"^name\.py:\d+: "):
        parse(source + "\n", "name.py")


def test_a_suppression_may_name_a_rule() -> None:
    assert parse("x = 1  # syncheck: ignore[SYN101] meant\n").codes == frozenset()


def test_the_markers_of_all_fixtures_are_well_formed() -> None:
    assert all(markers.read(path) for path in markers.fixtures())


# -- comparing


def _outcome(*found: tuple[str, int], **changes: Any) -> simulated.Outcome:
    given: dict[str, Any] = {
        "found": Counter(found), "elsewhere": (), "report": {"incomplete": []}, "status": 0, "error": "",
        "timed_out": False,
    }  # fmt: skip
    return simulated.Outcome(**given | changes)


EXPECTED = parse("x = 1\ny = x  # expect: SYN101\n")


def test_the_expected_finding_is_accepted() -> None:
    assert simulated.problems(EXPECTED, _outcome(("SYN101", 2))) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], ["line 2: SYN101 is expected and was not found"]),
        ([("SYN101", 2), ("SYN101", 2)], ["line 2: SYN101 was found and is not expected"]),
        (
            [("SYN101", 1)],
            ["line 2: SYN101 is expected and was not found", "line 1: SYN101 was found and is not expected"],
        ),
        (
            [("SYN102", 2)],
            ["line 2: SYN101 is expected and was not found", "line 2: SYN102 was found and is not expected"],
        ),
        ([("SYN101", 2), ("SYN802", 1)], ["line 1: SYN802 was found and is not expected"]),
    ],
    ids=["missing", "doubled", "wrong line", "wrong rule", "one too many"],
)
def test_a_wrong_finding_fails(found: list[tuple[str, int]], words: list[str]) -> None:
    assert simulated.problems(EXPECTED, _outcome(*found)) == words


@pytest.mark.parametrize(
    "changes",
    [
        {"elsewhere": ("SYN101 at other.py:1",)},
        {"report": {"incomplete": ["something was not seen"]}},
        {"report": {}},
        {"timed_out": True},
        {"status": 1, "error": "NameError: name 'x' is not defined"},
        {"status": 2, "error": "RuntimeError: CUDA error"},
        {"status": -11},
    ],
    ids=["other file", "incomplete", "no report", "timed out", "mistake", "exit status", "crash"],
)
def test_a_wrong_exit_fails(changes: dict[str, Any]) -> None:
    assert simulated.problems(EXPECTED, _outcome(("SYN101", 2), **changes))


def test_a_bad_program_may_end_with_a_cuda_error_but_a_good_one_may_not() -> None:
    changes = {"status": 1, "error": "torch.AcceleratorError: CUDA error: operation not permitted"}
    assert simulated.problems(EXPECTED, _outcome(("SYN101", 2), **changes)) == []
    assert simulated.problems(parse("x = 1\n"), _outcome(**changes))


# -- running


def _problems(simulator: Runner, path: Path, source: str, limit: float = simulated.LIMIT_SECONDS) -> list[str]:
    path.write_text(source, encoding="utf-8")
    return simulated.problems(markers.read(path), simulator.outcome(path, limit))


def test_a_program_is_run_and_its_finding_is_seen(simulator: Runner, tmp_path: Path) -> None:
    source = RACE.format(marker="  # expect: SYN101")
    assert _problems(simulator, tmp_path / "race.py", source) == []


@pytest.mark.parametrize("marker", ["", "  # expect: SYN102", "  # expect: SYN101, SYN101", "  # expect-lint: SYN101"])
def test_a_program_with_wrong_markers_fails(simulator: Runner, tmp_path: Path, marker: str) -> None:
    assert _problems(simulator, tmp_path / "race.py", RACE.format(marker=marker))


def test_a_marker_on_the_wrong_line_fails(simulator: Runner, tmp_path: Path) -> None:
    source = RACE.format(marker="") + "x = 1  # expect: SYN101\n"
    assert len(_problems(simulator, tmp_path / "race.py", source)) == 2


def test_a_program_without_gpu_work_fails(simulator: Runner, tmp_path: Path) -> None:
    assert _problems(simulator, tmp_path / "nothing.py", "x = 1\n")


def test_a_failing_program_is_not_clean(simulator: Runner, tmp_path: Path) -> None:
    source = 'import torch\n\nx = torch.ones(8, device="cuda")\nraise KeyError(1)\n'
    assert _problems(simulator, tmp_path / "fails.py", source) == ["it ended with status 1: KeyError: 1"]


def test_a_program_that_does_not_compile_fails(simulator: Runner, tmp_path: Path) -> None:
    assert _problems(simulator, tmp_path / "broken.py", "x = = 1\n")


def test_a_program_that_hangs_is_killed(simulator: Runner, tmp_path: Path) -> None:
    source = "import threading\n\nthreading.Event().wait()\n"
    wrong = _problems(simulator, tmp_path / "hangs.py", source, limit=2.0)
    assert wrong == ["it did not end in time and was killed"]


def test_a_program_does_not_affect_the_next_one(simulator: Runner, tmp_path: Path) -> None:
    source = "import os, sys\nprint('{', flush=True)\nsys.stdin.read()\nos._exit(0)\n"
    _problems(simulator, tmp_path / "noisy.py", source)
    source = RACE.format(marker="  # expect: SYN101")
    assert _problems(simulator, tmp_path / "race.py", source) == []
