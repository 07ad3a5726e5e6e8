"""The sanitizer, the reference and the schedules agree on random programs with two devices, graphs and more.

A program without races gives the values of the reference under every schedule tried. Each finding is a race of the
reference, and either a schedule demonstrates it or the reason why none does is known. `make agree` tries thousands.
"""

import os
import random

import pytest
import torch

from tests.agreement import steps as p
from tests.agreement.checking import CAPTURED, COLLECTIVE, SHOWN, UNEXPLAINED, check, check_verdict
from tests.agreement.drawing import draw
from tests.agreement.reachability import Reference
from tests.agreement.running import run
from tests.agreement.shrinking import smallest

N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "32"))
N_VERDICTS = 3 * N_PROGRAMS
"""Number of programs for which only the verdict and, without races, the values are checked, with no schedules."""
N_PARTS = 4
PARTS = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, N_PARTS))]
"""The parts that the programs are split into, one test each."""


def problem(program: p.Program) -> str:
    """Return a description of any disagreement, or ""."""
    try:
        return "a race is not shown for an unknown reason" if check(program)[UNEXPLAINED] else ""
    except AssertionError as error:
        return str(error) or "assertion failed"


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_verdict_reference_and_schedules_agree(part):
    for seed in range(part, N_PROGRAMS, N_PARTS):
        program = draw(random.Random(seed))
        if program.has_collectives and not torch.distributed.is_available():
            continue
        found = problem(program)
        assert not found, f"seed {seed}: {found}\n{smallest(program, problem)}"


def wrong_verdict(program: p.Program) -> str:
    reference, usual = Reference(program), run(program)
    try:
        check_verdict(reference, Reference(program, threads_order=True), usual)
        assert reference.races or usual.output == reference.output
    except AssertionError as error:
        return str(error) or "wrong values"
    return ""


@pytest.mark.parametrize("part", PARTS)
def test_verdict_and_reference_agree(part):
    for seed in range(N_PROGRAMS + part, N_PROGRAMS + N_VERDICTS, N_PARTS):
        program = draw(random.Random(seed))
        if program.has_collectives and not torch.distributed.is_available():
            continue
        found = wrong_verdict(program)
        assert not found, f"seed {seed}: {found}\n{smallest(program, wrong_verdict)}"


def test_a_race_between_two_devices_is_shown():
    program = p.Program((p.Part(4, 3, 0, 7), p.PeerCopy(3, 0, 0, 3)), n_devices=2)
    assert check(program) == {SHOWN: 1}


def test_a_race_with_a_replay_is_shown():
    graph = p.Capture(0, 1, (p.WaitStream(2, 1), p.Part(2, 0, 0, 7), p.WaitStream(1, 2)))
    assert check(p.Program((graph, p.Replay(0, 1), p.Part(0, 0, 0, 5)))) == {SHOWN: 1}
    assert check(p.Program((graph, p.Replay(0, 1), p.Part(0, 0, 1, 5)))) == {}


def test_a_race_across_a_capture_is_classified_as_not_showable():
    program = p.Program((p.Part(1, 0, 0, 7), p.Capture(0, 2, (p.Part(2, 1, 0, 5),)), p.Part(0, 0, 0, 5)))
    assert check(program) == {CAPTURED: 1}


def test_a_joined_thread_is_ordered_before_later_work():
    thread = p.Thread(0, (p.Download(1, 0, 0), p.SyncStream(1)))
    assert check(p.Program((thread, p.Join(0), p.Read(0)))) == {}
    assert check(p.Program((p.Thread(0, (p.Download(1, 0, 0),)), p.Join(0), p.Read(0)))) == {SHOWN: 1}


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_an_unawaited_collective_is_shown_if_it_moves_values():
    def program(name, source, step):
        return p.Program((p.Collective(0, 0, name, 1, source), step, p.WaitWork(0, 0)))

    write, read = p.Part(0, 1, 0, 7), p.Compute(0, 0, 1, 7)
    assert check(program("all_gather_into_tensor", 0, write)) == {SHOWN: 1}
    assert check(program("all_reduce", 1, write)) == {SHOWN: 1}  # reduces the values before the write
    assert check(program("all_reduce", 1, read)) == {COLLECTIVE: 1}


def test_memory_reused_after_a_wait_is_not_a_race():
    used = (
        p.WaitStream(1, 0),
        p.Compute(1, 1, 0, 7),
        p.New(0, 0, 9),
        p.Empty(0, 2),
        p.WaitStream(0, 1),
        p.Fill(0, 2, 8),
    )
    assert check(p.Program((*used[:2], p.Free(0), *used[3:]))) == {}
    assert check(p.Program((*used[:2], p.Free(0), used[3], used[5]))) == {SHOWN: 1}


def test_failing_programs_are_shrunk():
    program = p.Program((p.Part(1, 0, 0, 7), p.Read(0), p.Part(0, 0, 0, 5), p.SyncDevice(0)))
    assert smallest(program, lambda one: "x" if p.Read(0) in one.steps else "").steps == (p.Read(0),)


def test_a_capture_after_the_previous_owner_of_memory_hides_a_first_use():
    graph = p.Capture(0, 2, (p.Part(2, 1, 0, 5),))
    reuse = (p.New(2, 0, 22), p.Empty(2, 0), p.Fill(0, 0, 23))
    assert check(p.Program((p.Compute(2, 0, 2, 21), graph, *reuse))) == {CAPTURED: 1}
    assert check(p.Program((p.Compute(2, 0, 2, 21), *reuse))) == {SHOWN: 1}
