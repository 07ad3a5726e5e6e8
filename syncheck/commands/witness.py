"""Attempt to reproduce the races of a report, and describe what changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from syncheck.commands.reruns import Reruns
from syncheck.commands.strategies import DelayStrategy, ScheduleStrategy, Strategy, reason_not_reversed
from syncheck.findings import Finding, Report, counted
from syncheck.witness.compare import (
    Rerun,
    differences,
    differences_at,
    ends_differently,
    is_only_printed,
    nondeterministic_lines,
)
from syncheck.witness.delay import Delay
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from syncheck.witness.schedule import Pair, Schedule

_MAX_TRIED = 20
"""Maximum number of races to try; the first one of each rule takes precedence."""
_MAX_RANKS = 3
"""Number of ranks in which a race is tried, lowest first: a single rank, such as the root, may not be affected."""
_OUT_OF_MEMORY = "out of memory"
_DID_NOT_RECUR = "the accesses did not recur when the program was rerun"
_NOT_REORDERABLE = {
    "schedule": "simulated GPUs run the earlier access immediately, like functional collectives and those of C++ code",
    "delay": "the earlier access is not made by an operator",
}
_NO_PAIR = "its accesses are in a process that the program starts, inside a CUDA graph, or made by the host"
_RACES = frozenset({"SYN101", "SYN102", "SYN103", "SYN104", "SYN201", "SYN301", "SYN302"})
"""The rules whose findings are about the order of two accesses."""
_TIMED_OUT = "the rerun takes longer than --proof-limit"


def prove(report: Report, reruns: Reruns) -> Report:
    """Return a report with the result of the attempt to reproduce each of its races."""
    tried = _races_to_try(report.findings)
    is_real = reruns.options.confirm
    pairs = tuple(pair for finding in tried for _, pair in _ranks_to_try(finding, is_real=is_real))
    if not pairs and not reruns.options.schedules:
        return _with_proofs(report, {}, "delay" if is_real else "schedule")
    program = reruns.program
    baseline = _baseline(Delay(program) if is_real else Schedule(program), reruns, pairs)
    strategy: Strategy = DelayStrategy(program, baseline.reference) if is_real else ScheduleStrategy(program)
    proofs = {id(finding): _proof(strategy, reruns, baseline, finding) for finding in tried}
    return _with_proofs(report, proofs, strategy.name).noted(*_explore(reruns, baseline))


def _races_to_try(findings: Iterable[Finding]) -> list[Finding]:
    """Return the races to try."""
    races = [finding for finding in findings if finding.pair is not None]
    first = {finding.rule.code: finding for finding in reversed(races)}
    others = [finding for finding in races if first[finding.rule.code] is not finding]
    return [*first.values(), *others[: max(0, _MAX_TRIED - len(first))]]


def _with_proofs(report: Report, proofs: dict[int, Proof], means: Literal["schedule", "delay"]) -> Report:
    """Return a report whose races have the proofs, by the ids of findings, or say why they were not tried."""

    def shown(finding: Finding) -> Finding:
        if finding.pair is None and finding.rule.code not in _RACES:
            return finding
        reason = _NO_PAIR if finding.pair is None else f"only {_MAX_TRIED} races are tried in one run"
        return replace(finding, proof=proofs.get(id(finding), Proof(ProofOutcome.NOT_TRIED, means, reason=reason)))

    return replace(report, findings=tuple(map(shown, report.findings)))


@dataclass(frozen=True, slots=True)
class _Baseline:
    """Two runs in program order.

    Attributes:
        reference: the first run.
        repeat: the second run.
        nondeterministic: numbers of the printed lines in which they differ.
        failure: why they cannot be compared with other runs; "" if they can.
        nondeterminism: description of other differences between them; "" if there are none.
    """

    reference: Rerun
    repeat: Rerun
    nondeterministic: frozenset[int]
    failure: str = ""
    nondeterminism: str = ""

    @property
    def reason(self) -> str:
        """Why the output and results of other runs prove nothing; "" if they can be compared."""
        return self.failure or self.nondeterminism


def _baseline(plain: Schedule | Delay, reruns: Reruns, pairs: tuple[Pair, ...]) -> _Baseline:
    reference, repeat = (reruns.run(plain, pairs) for _ in range(2))
    nondeterministic = nondeterministic_lines(reference, repeat)
    return _Baseline(
        reference,
        repeat,
        nondeterministic,
        _failure(reference, repeat),
        _nondeterminism(reference, repeat, nondeterministic),
    )


def _failure(reference: Rerun, repeat: Rerun) -> str:
    if reference.timed_out or repeat.timed_out:
        return "the program takes longer than --proof-limit"
    if not reference.records or not repeat.records:
        return f"the program did not finish when it was rerun{_cause(reference)}"
    failure = reference.failure or repeat.failure
    return f"syncheck failed when the program was rerun: {failure}" if failure else ""


def _nondeterminism(reference: Rerun, repeat: Rerun, nondeterministic: frozenset[int]) -> str:
    changed = differences(reference, repeat, None, nondeterministic)
    return _not_deterministic(changed[0]) if changed else ""


def _not_deterministic(first: Difference) -> str:
    return (
        f"the program is not deterministic: two runs in the same order differ in {first.what}: "
        f"{first.usual}, then {first.other}"
    )


def _cause(run: Rerun) -> str:
    return f": {run.error}" if run.error else ""


def _recurred(reference: Rerun, pair: Pair) -> bool:
    """Return whether the accesses of a race recurred in a run; the later one may be missing if the run succeeded."""
    seen = {launch for record in reference.records for launch in (*record.order, *record.starts)}
    return str(pair.earlier) in seen and (not reference.status or not pair.later.stream or str(pair.later) in seen)


def _ranks_to_try(finding: Finding, *, is_real: bool) -> Sequence[tuple[int | None, Pair]]:
    """Return the ranks in which a race is tried, with its accesses; None for all ranks, to which a delay applies."""
    if finding.pairs and not is_real:
        return finding.pairs[:_MAX_RANKS]
    return [(None, finding.pair)] if finding.pair is not None else []


def _proof(strategy: Strategy, reruns: Reruns, baseline: _Baseline, finding: Finding) -> Proof:
    """Return the result of the first rank in which the race is shown, else that of the first rank."""
    proofs = []
    for rank, pair in _ranks_to_try(finding, is_real=strategy.name == "delay"):
        proofs.append(_Attempt(strategy, reruns, baseline, rank, pair).proof())
        if proofs[-1].outcome is ProofOutcome.SHOWN:
            return proofs[-1]
    return proofs[0]


class _Attempt:
    """An attempt to reproduce one race in one rank."""

    def __init__(self, strategy: Strategy, reruns: Reruns, baseline: _Baseline, rank: int | None, pair: Pair) -> None:
        self._strategy, self._reruns, self._baseline = strategy, reruns, baseline
        self._rank, self._pair = rank, pair

    def proof(self) -> Proof:
        """Return the first proof that shows the race, else that of the first schedule."""
        reason = self._reason_not_to_try()
        first = Proof(
            ProofOutcome.NOT_TRIED, self._strategy.name, reason=reason or _NOT_REORDERABLE[self._strategy.name]
        )
        for number, schedule in enumerate(() if reason else self._strategy.schedules(self._pair, self._rank)):
            found = self._try(schedule)
            if found.outcome is ProofOutcome.SHOWN:
                return found
            first = found if number == 0 else first
        return first

    def _reason_not_to_try(self) -> str:
        """Return why the race cannot be tried or its rerun not be compared; "" if it can."""
        baseline = self._baseline
        if baseline.failure or not self._pair.earlier.stream:
            return baseline.failure or "the earlier access is made by the host"
        if not _recurred(baseline.reference.of_rank(self._rank), self._pair):
            failed = f"{_DID_NOT_RECUR}{_cause(baseline.reference)}" if baseline.reference.status else ""
            return failed or _NOT_REORDERABLE[self._strategy.name]
        if baseline.nondeterminism and self._strategy.name == "schedule":
            return baseline.nondeterminism
        changed = differences_at(baseline.reference, baseline.repeat, self._pair, self._rank)
        if not changed or self._agrees_in_order():
            return ""
        return baseline.nondeterminism or _not_deterministic(changed[0])

    def _agrees_in_order(self) -> bool:
        """Compare with runs in which the earlier access surely comes first; return whether these agree.

        The race itself may be why two plain runs differ.
        """
        delay = self._strategy.schedule_in_order(self._pair)
        if delay is None:
            return False
        reference, repeat = (self._reruns.run(delay, (self._pair,)) for _ in range(2))
        if _failure(reference, repeat) or not _recurred(reference, self._pair) or not _recurred(repeat, self._pair):
            return False
        self._baseline = replace(self._baseline, reference=reference, repeat=repeat)
        return not differences_at(reference, repeat, self._pair)

    def _try(self, schedule: Schedule | Delay) -> Proof:
        name, text, command = self._strategy.name, str(schedule), self._reruns.command_for(schedule)
        other = self._reruns.run(schedule, (self._pair,))
        reason = self._reason_not_reversed(schedule, other)
        changed = () if reason else self._differences(other)
        if not changed:
            reason = reason or self._reason_inconclusive(other)
        if reason:
            return Proof(ProofOutcome.NOT_TRIED, name, text, reason, command=command)
        outcome = ProofOutcome.SHOWN if changed else ProofOutcome.NOT_SHOWN
        return Proof(outcome, name, text, schedule.description, changed, command)

    def _reason_not_reversed(self, schedule: Schedule | Delay, other: Rerun) -> str:
        if other.timed_out:
            return _TIMED_OUT
        if _OUT_OF_MEMORY in other.error:
            return f"there is not enough memory for the rerun: {other.error}"
        return reason_not_reversed(schedule, other.of_rank(self._rank), self._pair)

    def _differences(self, other: Rerun) -> tuple[Difference, ...]:
        baseline = self._baseline
        if baseline.nondeterminism:  # on real GPUs: compare only the values that both accesses see
            ends = ends_differently(baseline.reference, baseline.repeat, other)
            return (*ends, *differences_at(baseline.reference, other, self._pair))
        found = differences(baseline.reference, other, self._pair, baseline.nondeterministic, self._rank)
        return () if self._strategy.name == "delay" and is_only_printed(found) else found

    def _reason_inconclusive(self, other: Rerun) -> str:
        """Return why a run without changed values proves nothing; "" if it does."""
        if not other.records:
            return f"the program did not finish{_cause(other)}"
        names = [str(launch) for launch in self._pair if launch.stream]
        for record in other.of_rank(self._rank).records:
            if record.forced:
                return record.forced[0]
            if all(name in record.starts for name in names) and not set(names) <= set(record.order):
                return "the accesses are on two GPUs, and no clock shows which completed first"
        return ""


def _explore(reruns: Reruns, baseline: _Baseline) -> Iterator[str]:
    """Run the program under random schedules, and yield the result."""
    number, seed = reruns.options.schedules, reruns.options.seed
    if not number:
        return
    if baseline.reason:
        yield f"no random schedule was tried: {baseline.reason}"
        return
    changed: list[tuple[Schedule, Difference]] = []
    n_timed_out = 0
    for each in range(seed, seed + number):
        schedule = Schedule(reruns.program, seed=each)
        other = reruns.run(schedule)
        n_timed_out += other.timed_out
        found = () if other.timed_out else differences(baseline.reference, other, None, baseline.nondeterministic)
        changed += [(schedule, found[0])] if found else []
    late = f"; {n_timed_out} took longer than --proof-limit" if n_timed_out else ""
    if not changed:
        yield f"{counted(number, 'random schedule')}: all results match the program's order{late}"
        return
    schedule, first = changed[0]
    yield (
        f"{len(changed)} of {counted(number, 'random schedule')} give different results{late}; "
        f"with --schedule {schedule}, {first.what}: {first.other}, not {first.usual}"
    )
