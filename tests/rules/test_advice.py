"""The advice in a report can be pasted: the finding disappears, no new one appears, and the program still runs."""

from collections import Counter
from pathlib import Path

import markers
import pytest
from pasting import has_placeholder, pasted
from simulated import Outcome, Runner, problems

MAX_ROUNDS = 8
PROGRAMS = Path(__file__).with_name("programs")
IN_PROSE = frozenset(
    "SYN405 SYN406 SYN501 SYN604 SYN801 SYN803 SYN804 SYN805 SYN806 SYN808 SYN901 SYN902 SYN904 SYN906".split()
)
"""Rules whose advice is not a line of code."""
WITHOUT_A_LINE = {
    "bugs/5_15_embedding_batch_reused_bad.py",  # the program has no object for the group's stream
    "host-read-in-flight/bad_reused_by_thread.py",  # threads must wait for each other
    "unordered-read/bad_recorded_after_put.py",  # a line has to be moved
    "unsynchronized-timing/bad_timeit.py",  # the wait belongs into the timed code
    "wait-before-record/bad_ring.py",  # the event has no name where its record belongs
}
"""Programs with findings of other rules whose advice is not a line of code either."""
COMPLETED_BY_THE_READER = {
    "unordered-write/bad_threads.py",  # a lock must be held around the line
}
"""Programs whose advice is code that the reader has to complete."""
WITH_MISTAKES = [path for path in markers.fixtures() if markers.read(path).run]


def name_of(path: Path) -> str:
    return path.relative_to(markers.ROOT if path.is_relative_to(markers.ROOT) else PROGRAMS).as_posix()


def codes(outcome: Outcome) -> Counter[str]:
    return Counter(finding["rule"] for finding in outcome.report["findings"])


def serious(outcome: Outcome) -> Counter[str]:
    return Counter(finding["rule"] for finding in outcome.report["findings"] if finding["level"] != "advice")


class PastedAdvice:
    """Runs a program and copies of it with one finding's advice applied."""

    def __init__(self, path: Path, simulator: Runner, folder: Path) -> None:
        self._name, self._simulator, self._folder = path.name, simulator, folder
        self._number = 0
        self.source = path.read_text(encoding="utf-8")
        self.outcome = simulator.outcome(path)

    def after(self, advice: str) -> tuple[str, Outcome] | None:
        """Return the program with the advice applied and its outcome, or None if the advice cannot be pasted."""
        changed = pasted(self.source, advice)
        if changed is None:
            return None
        self._number += 1
        program = self._folder / str(self._number) / self._name
        program.parent.mkdir()
        program.write_text(changed, encoding="utf-8")
        return changed, self._simulator.outcome(program)


def assert_fixed(before: Outcome, after: Outcome, code: str, advice: str) -> None:
    assert after.report, after.error
    assert after.status in {0, before.status}, after.error
    assert len(after.report["incomplete"]) <= len(before.report["incomplete"]), after.report["incomplete"]
    assert codes(after)[code] < codes(before)[code], advice
    assert not serious(after) - serious(before), advice


@pytest.mark.slow
@pytest.mark.parametrize("path", [*WITH_MISTAKES, *sorted(PROGRAMS.glob("*.py"))], ids=name_of)
def test_each_pasted_advice_removes_its_finding(path: Path, simulator: Runner, tmp_path: Path) -> None:
    pastes = PastedAdvice(path, simulator, tmp_path)
    assert not problems(markers.read(path), pastes.outcome)
    for finding in pastes.outcome.report["findings"]:
        advice = finding["help"]
        after = pastes.after(advice)
        if name_of(path) in COMPLETED_BY_THE_READER:
            assert has_placeholder(advice)
        elif after is None:
            assert not has_placeholder(advice), advice
            assert finding["rule"] in IN_PROSE or name_of(path) in WITHOUT_A_LINE
        else:
            assert_fixed(pastes.outcome, after[1], finding["rule"], advice)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=name_of)
def test_pasting_all_advice_leaves_a_clean_program(path: Path, simulator: Runner, tmp_path: Path) -> None:
    pastes = PastedAdvice(path, simulator, tmp_path)
    for _ in range(MAX_ROUNDS):
        advised = (pastes.after(finding["help"]) for finding in pastes.outcome.report["findings"])
        after = next((changed for changed in advised if changed is not None), None)
        if after is None:
            break
        pastes.source, pastes.outcome = after
    assert not pastes.outcome.report["findings"]
    assert pastes.outcome.status == 0


def test_advice_names_the_event_of_the_slot(simulator: Runner) -> None:
    (finding,) = simulator.outcome(PROGRAMS / "slots.py").report["findings"]
    assert "add `torch.cuda.current_stream().wait_event(copied[slot])` before line 25" in finding["help"]


def test_a_prefetcher_waits_where_it_hands_the_batch_over(simulator: Runner) -> None:
    (finding,) = simulator.outcome(PROGRAMS / "prefetcher_class.py").report["findings"]
    assert "add `torch.cuda.current_stream().wait_stream(self.stream)` before line 20" in finding["help"]


def test_advice_is_applied_to_the_program() -> None:
    advice = "add `side.wait_stream(main)` before line 2; or let `y`, or the host, wait for `x`"
    assert pasted("a\n  b\n", advice) == "a\n  side.wait_stream(main)\n  b\n"
    assert pasted("e.wait(s)\n", "call `e.synchronize()` instead of `.wait()` at line 1") == "e.synchronize()\n"
    assert pasted("e.record()\n", "call `e.record(side)` at line 1") == "e.record(side)\n"
    assert (
        pasted("a = E.Event()\n", "pass `enable_timing=True` to the call at line 1")
        == "a = E.Event(enable_timing=True)\n"
    )
    assert pasted("f(a, non_blocking=True)\n", "pin it, or drop `non_blocking=True` at line 1") == "f(a)\n"
    assert pasted("a\n", "add `<event>.synchronize()` before line 1") is None
    assert pasted("a\n", "for example, add `b()` before line 1") is None


@pytest.mark.parametrize(
    ("advice", "has"),
    [
        ("add `<handle>.wait()` before line 2, where `<handle>` is what the call at line 1 returns", True),
        ("for example, add `a()` before line 1", True),
        ("add `a()` before line 1", False),
        ("keep the value on the GPU", False),
    ],
)
def test_advice_that_the_reader_has_to_complete_is_recognized(advice: str, has: bool) -> None:
    assert has_placeholder(advice) is has
