"""Checks one program against the sanitizer's verdict, the reference and several schedules."""

from collections import Counter
from collections.abc import Iterator

from syncheck.findings import Finding
from syncheck.rules import unordered_first_use
from syncheck.witness.compare import differences
from syncheck.witness.schedule import Hold, LaunchId, Schedule
from tests.agreement import steps as p
from tests.agreement.reachability import Race, Reference
from tests.agreement.running import Run, run
from tests.agreement.symbolic import every_choice

SEEDS = range(3)
FEW_LAUNCHES = 3
MAX_CHOICES = 12

SHOWN = "shown"
NO_PAIR = "both accesses are in one graph, which a schedule replays as a unit"
CAPTURED = "a capture lies between the accesses, and the simulator runs all submitted work at a capture"
SAME_VALUES = "the reference computes the same values in either order"
SMALLER = "the late use writes, and the simulator reuses the memory for a tensor of another size"
NO_TENANT = "no previous owner of the memory has work that could overlap the first use"
COLLECTIVE = "an all-reduce of one rank changes no value"
REPLAYED = "the values that a replay reads are not recorded, and nothing else differs"
UNEXPLAINED = "unexplained"


def check(program: p.Program) -> Counter[str]:
    """Check a program. Return how many findings a schedule demonstrated, and for the others the reasons why not.

    Without races, the results of all schedules are compared. With races, only the part before the first one is checked:
    the sanitizer treats the accesses of a reported race as ordered from then on.
    """
    reference = Reference(program)
    usual = run(program)
    check_verdict(reference, Reference(program, threads_order=True), usual)
    if not reference.races:
        check_one_result(program, reference, usual)
        return Counter()
    before = race_free_part(program, reference.races)
    if before.steps:
        check_one_result(before, Reference(before), run(before))
    return Counter(shown_by_schedules(program, reference, usual))


def check_verdict(reference: Reference, certain: Reference, usual: Run) -> None:
    """Check that the sanitizer reports only true races, and at least one that completes at the earliest line.

    The sanitizer may treat a finished thread as ordered with later work, because the program could have observed its
    end. Only the races in `certain`, which remain under that assumption, must be reported.
    """
    named = [usual.lines_of(finding) for finding in usual.findings]
    for finding, lines in zip(usual.findings, named, strict=True):
        assert any(race.lines <= lines for race in reference.races), f"{finding} is not a race"
    if certain.races:
        line = min(race.later for race in certain.races)
        first = [race for race in certain.races if race.later == line]
        assert any(race.lines <= lines for race in first for lines in named), f"none of {first} was reported"


def race_free_part(program: p.Program, races: list[Race]) -> p.Program:
    """Return the steps before the one that completes the first race."""
    first = min(race.later for race in races)
    ends = {step: line.number for line in program.lines for step in [id(line.step)]}
    return p.Program(tuple(step for step in program.steps if ends[id(step)] < first), program.n_devices)


def check_one_result(program: p.Program, reference: Reference, usual: Run) -> None:
    """Check that a program without races has one result under every schedule tried."""
    assert not usual.findings
    assert usual.output == reference.output
    for other in other_runs(program, len(usual.lines)):
        assert other.output == reference.output
        assert not other.findings


def other_runs(program: p.Program, n_launches: int) -> Iterator[Run]:
    for seed in SEEDS:
        yield run(program, Schedule(0, seed=seed))
    if n_launches - len(program.of_devices(p.TENSORS)) <= FEW_LAUNCHES:
        yield from every_choice(lambda policy: run(program, FixedPolicy(policy)), MAX_CHOICES)


class FixedPolicy:
    """A schedule that uses a given policy."""

    def __init__(self, policy):
        self.chosen = policy

    def policy(self, rank=0):
        del rank  # there is only one
        return self.chosen


# -- races


def shown_by_schedules(program: p.Program, reference: Reference, usual: Run) -> Iterator[str]:
    pairs = tuple(finding.pair for finding in usual.findings if finding.pair is not None)
    plain = run(program, Schedule(0), pairs) if pairs else usual
    for finding in usual.findings:
        if finding.pair is None:
            yield NO_PAIR if is_in_one_graph(program, usual.lines_of(finding)) else UNEXPLAINED
            continue
        runs = (run(program, Schedule(0, (hold,)), pairs) for hold in holds_of(finding))
        is_shown = any(differences(plain.rerun, other.rerun, finding.pair) for other in runs)
        yield SHOWN if is_shown else reason(program, reference, usual, finding)


def holds_of(finding: Finding) -> Iterator[Hold]:
    """Yield the holds that delay the earlier access.

    For a first use, these include every launch on the stream before the allocation: the previous owner of the memory is
    unknown, and its work may be any of them.

    """
    assert finding.pair is not None
    earlier, later = finding.pair
    first = 1 if finding.rule is unordered_first_use.RULE else earlier.number
    for number in range(earlier.number, first - 1, -1):
        yield Hold(LaunchId(earlier.stream, number), later if later.stream else None)


def is_in_one_graph(program: p.Program, lines: frozenset[int]) -> bool:
    steps = [line.step for line in program.lines if line.number in lines]
    return len(steps) >= 2 and all(isinstance(step, p.Capture) and step is steps[0] for step in steps)


def reason(program: p.Program, reference: Reference, usual: Run, finding: Finding) -> str:
    """Return why no value changed, as far as this can be determined."""
    assert finding.pair is not None
    begin = line_of(usual, finding.pair.earlier)
    end = line_of(usual, finding.pair.later) or max(usual.lines_of(finding))  # a host access has no launch
    if has_capture(program, begin, end):
        return CAPTURED
    ends = [line.step for line in program.lines if line.number in {begin, end}]
    if any(isinstance(step, p.Collective) and step.is_in_place for step in ends):
        return COLLECTIVE
    if any(isinstance(line.step, p.Replay) and line.number in {begin, end} for line in program.lines):
        return REPLAYED
    lines = usual.lines_of(finding)
    races = [race for race in reference.races if race.lines <= lines]
    if finding.rule is not unordered_first_use.RULE:
        races = [race for race in races if begin in race.lines]
    if races and all(race.kind == "access" and not reference.values_differ(race) for race in races):
        return SAME_VALUES
    if races and all(race.kind == "first use" for race in races):
        return reason_of_first_use(program, races)
    reusing = {line.number for line in program.lines if isinstance(line.step, p.Item)}
    if races and all(race.kind == "reuse" and race.later in reusing for race in races):
        return SMALLER
    return UNEXPLAINED


def reason_of_first_use(program: p.Program, races: list[Race]) -> str:
    tenants = [(line, race.later) for race in races for line in race.tenants]
    if not tenants:
        return NO_TENANT
    return CAPTURED if all(has_capture(program, *lines) for lines in tenants) else UNEXPLAINED


def has_capture(program: p.Program, begin: int, end: int) -> bool:
    """Return whether there is a capture after line `begin`, up to and including line `end`."""
    return any(isinstance(line.step, p.Capture) and begin < line.number <= end for line in program.lines)


def line_of(usual: Run, launch: LaunchId) -> int:
    return usual.lines.get(launch, 0)
