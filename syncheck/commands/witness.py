"""Runs a program on simulated GPUs again, under schedules, and says what changes."""

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from syncheck.config.options import Options
from syncheck.errors import ConfigError, RecordError
from syncheck.findings import Finding, Report, counted
from syncheck.run.launcher import PreparedProgram
from syncheck.system import processes
from syncheck.witness import record
from syncheck.witness.compare import Rerun, differences, unsteady_lines
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from syncheck.witness.schedule import Hold, Pair, Schedule

_MOST_TRIED = 20
"""Races that are tried; of more, the first of each rule come first."""


def program_id(prepared: PreparedProgram) -> int:
    """Return the checksum of a program and its arguments, which a schedule carries."""
    text = "\0".join((os.path.basename(prepared.program.target), *prepared.program.arguments)).encode(
        "utf-8", "replace"
    )
    if prepared.path is not None and os.path.isfile(prepared.path):
        text += Path(prepared.path).read_bytes()
    return zlib.crc32(text) & 0xFFFFFF


def check_schedule(text: str, prepared: PreparedProgram) -> None:
    """Check that a schedule is that of a program.

    Raises:
        ConfigError: it is of another one, or of other arguments, or the program has changed.
    """
    if text and Schedule.parse(text).program != program_id(prepared):
        raise ConfigError(
            f"the schedule {text!r} is not of this program",
            "a schedule holds for one program, unchanged, and its arguments: make it anew with --witness",
        )


def simulator_arguments(options: Options) -> list[str]:
    """Return what a command line has to have for the same simulated GPUs, and the same models of libraries."""
    kind = ["--device-type", options.device_type] if options.device_type != "cuda" else []
    models = [word for name in options.models for word in ("--models", name)]
    return ["--backend", "sim", "--devices", str(options.devices), *kind, *models]


@dataclass(slots=True)
class Reruns:
    """Runs a program again.

    Args:
        prepared: the program.
        options: those of the first run.
    """

    prepared: PreparedProgram
    options: Options
    folder: str = field(default_factory=os.getcwd)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def program(self) -> int:
        """The program's checksum."""
        return program_id(self.prepared)

    def run(self, schedule: Schedule, pairs: tuple[Pair, ...] = ()) -> Rerun:
        """Run the program by a schedule; `pairs`: the accesses of which the values are of interest."""
        with tempfile.TemporaryDirectory(prefix="syncheck-") as folder:
            path = Path(folder, "record.json")
            request = record.Request(str(path), pairs).as_variable()
            environment = self.environment | {record.REQUEST: request, "PYTHONHASHSEED": "0"}
            try:
                limit = self.options.proof_limit or None
                done = processes.run_quietly(self._command(schedule), self.folder, environment, limit)
            except subprocess.TimeoutExpired:
                return Rerun((), 0, "", None, timed_out=True)
            return _rerun(done, path)

    def _command(self, schedule: Schedule) -> list[str]:
        options, program = self.options, self.prepared.program
        own = [*simulator_arguments(options), "--schedule", str(schedule)]
        target = ["-m", program.target] if program.is_module else [program.target]
        return [
            sys.executable, "-m", "syncheck", "run", "--isolated", "--quiet", "--exit-zero", "--third-party", "off",
            "--no-witness", "--schedules", "0", "--output", os.devnull, *own, *target, *program.arguments,
        ]  # fmt: skip


def _rerun(done: subprocess.CompletedProcess[bytes], path: Path) -> Rerun:
    output = done.stdout.decode("utf-8", "replace").splitlines()
    errors = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    try:
        seen = record.read(path)
    except RecordError:
        seen = None
    return Rerun(tuple(output), done.returncode, errors[-1] if errors and done.returncode else "", seen)


def prove(report: Report, reruns: Reruns) -> Report:
    """Return a report with what came of the attempt to make each of its races happen."""
    tried = _chosen(report.findings)
    pairs = tuple(finding.pair for finding in tried if finding.pair is not None)
    if not pairs and not reruns.options.schedules:
        return report
    usual, same = (reruns.run(Schedule(reruns.program), pairs) for _ in range(2))
    unsteady = unsteady_lines(usual, same)
    reason = _useless(usual, same, unsteady)
    proofs = {id(finding): _attempt(finding, reruns, usual, unsteady, reason) for finding in tried}
    findings = tuple(_with_proof(finding, proofs) for finding in report.findings)
    report = replace(report, findings=findings)
    return report.noted(*_explored(reruns, usual, unsteady, reason))


def _chosen(findings: Iterable[Finding]) -> list[Finding]:
    """Return the races to try."""
    races = [finding for finding in findings if finding.pair is not None]
    first = {finding.rule.code: finding for finding in reversed(races)}
    others = [finding for finding in races if first[finding.rule.code] is not finding]
    return [*first.values(), *others[: max(0, _MOST_TRIED - len(first))]]


def _with_proof(finding: Finding, proofs: dict[int, Proof]) -> Finding:
    if finding.pair is None:
        return finding
    left_out = Proof(ProofOutcome.NOT_TRIED, "schedule", reason=f"only {_MOST_TRIED} races are tried in one run")
    return replace(finding, proof=proofs.get(id(finding), left_out))


def _useless(usual: Rerun, same: Rerun, unsteady: frozenset[int]) -> str:
    """Return why runs cannot be compared; "" if they can."""
    if usual.timed_out or same.timed_out:
        return "the program takes longer than --proof-limit"
    if usual.record is None or same.record is None:
        return f"the program did not get to its end when it was run again{_because(usual)}"
    changed = differences(usual, same, None, unsteady)
    if changed:
        first = changed[0]
        return (
            f"the program is not deterministic: two runs in the same order differ in {first.what}: "
            f"{first.usual}, then {first.other}"
        )
    return ""


def _because(run: Rerun) -> str:
    return f": {run.error}" if run.error else ""


def _attempt(finding: Finding, reruns: Reruns, usual: Rerun, unsteady: frozenset[int], reason: str) -> Proof:
    pair = finding.pair
    assert pair is not None
    if not reason and not pair.earlier.stream:
        reason = "the earlier access is one of the host"
    reason = reason or _missing(usual, pair)
    if reason:
        return Proof(ProofOutcome.NOT_TRIED, "schedule", reason=reason)
    attempts = [_tried(hold, pair, reruns, usual, unsteady) for hold in holds_of(pair)[:1]]
    if attempts[0].outcome is not ProofOutcome.SHOWN:
        attempts += [_tried(hold, pair, reruns, usual, unsteady) for hold in holds_of(pair)[1:]]
    return next((one for one in attempts if one.outcome is ProofOutcome.SHOWN), attempts[0])


def _missing(usual: Rerun, pair: Pair) -> str:
    """Return why two accesses were not there when the program was run again in its own order; "" if they were."""
    seen = usual.record.order if usual.record is not None else []
    if all(str(launch) in seen for launch in pair if launch.stream):
        return ""
    return f"the accesses did not come when the program was run again{_because(usual)}"


def holds_of(pair: Pair) -> list[Hold]:
    """Return what brings two accesses into the other order: until the later one has run, and as long as can be.

    The latter is for a loop, in which only a later iteration has other values.
    """
    return [*([Hold(pair.earlier, pair.later)] if pair.later.stream else []), Hold(pair.earlier)]


def _tried(hold: Hold, pair: Pair, reruns: Reruns, usual: Rerun, unsteady: frozenset[int]) -> Proof:
    schedule = Schedule(reruns.program, (hold,))
    other = reruns.run(schedule, (pair,))
    if other.timed_out:
        return Proof(ProofOutcome.NOT_TRIED, "schedule", str(schedule), "it takes longer than --proof-limit")
    refused = _refused(other, pair)
    if refused:
        return Proof(ProofOutcome.NOT_TRIED, "schedule", str(schedule), refused)
    changed = differences(usual, other, pair, unsteady)
    if not changed and other.record is not None and other.record.forced:
        return Proof(ProofOutcome.NOT_TRIED, "schedule", str(schedule), other.record.forced[0])
    outcome = ProofOutcome.SHOWN if changed else ProofOutcome.NOT_SHOWN
    return Proof(outcome, "schedule", str(schedule), differences=changed)


def _refused(other: Rerun, pair: Pair) -> str:
    """Return why the accesses did not come in the other order; "" if they did."""
    seen = other.record
    if seen is None or not pair.later.stream:
        return ""
    order = [seen.order.index(str(launch)) if str(launch) in seen.order else None for launch in pair]
    if order[1] is None:
        return ""  # the program took another way
    if order[0] is not None and order[1] < order[0]:
        return ""
    return seen.forced[0] if seen.forced else "the host waits for the earlier access first"


def _explored(reruns: Reruns, usual: Rerun, unsteady: frozenset[int], reason: str) -> Iterator[str]:
    """Run by random schedules, and yield what came of it."""
    number, seed = reruns.options.schedules, reruns.options.seed
    if not number:
        return
    if reason:
        yield f"no random schedule was tried: {reason}"
        return
    changed: list[tuple[Schedule, Difference]] = []
    n_late = 0
    for each in range(seed, seed + number):
        schedule = Schedule(reruns.program, seed=each)
        other = reruns.run(schedule)
        n_late += other.timed_out
        found = () if other.timed_out else differences(usual, other, None, unsteady)
        changed += [(schedule, found[0])] if found else []
    late = f"; {n_late} took longer than --proof-limit" if n_late else ""
    if not changed:
        yield f"{counted(number, 'random schedule')}: all results are those of the program's order{late}"
        return
    schedule, first = changed[0]
    yield (
        f"{len(changed)} of {counted(number, 'random schedule')} give other results{late}; with --schedule {schedule}, "
        f"{first.what}: {first.other}, not {first.usual}"
    )
