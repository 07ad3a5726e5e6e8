"""Runs a program made of `steps` on simulated GPUs and returns its output, findings and record."""

import linecache
import os
import warnings
from dataclasses import dataclass, field

import torch.distributed as dist

from syncheck.findings import Finding
from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.rules import dropped_work
from syncheck.rules.model import Severity
from syncheck.sanitizer.session import Session
from syncheck.sim.backend import Simulator
from syncheck.witness.compare import Rerun
from syncheck.witness.record import REQUEST, Record, Request
from syncheck.witness.schedule import LaunchId, Pair, Schedule
from tests.agreement.steps import Program
from tests.permanent import exempt_living_objects

NAME = "random_program.py"


@dataclass
class Run:
    """The result of one run.

    Attributes:
        output: the program's output.
        findings: errors and warnings, except dropped handles, which occur in programs that were cut short.
        record: the record made under a schedule.
        lines: launch -> its line in the program.
    """

    output: list[object]
    findings: list[Finding] = field(default_factory=list)
    record: Record = field(default_factory=Record)
    lines: dict[LaunchId, int] = field(default_factory=dict)

    @property
    def rerun(self) -> Rerun:
        """The run in the form that the comparison of two runs takes."""
        return Rerun(tuple(map(str, self.output)), 0, "", (self.record,))

    def lines_of(self, finding: Finding) -> frozenset[int]:
        """Return all lines that a finding names, including those of its two accesses."""
        named = {location.frame.line for location in (finding.location, *finding.related)}
        return frozenset(named | {self.lines[launch] for launch in finding.pair or () if launch in self.lines})


class LineRecorder(Session):
    """A session that records the line of each launch."""

    def __init__(self, on_finding):
        super().__init__(lambda rule: True, "virtual GPUs", on_finding)
        self.sites: dict[LaunchId, int] = {}
        self.counts: dict[int, int] = {}

    def launch(self, stream, operator, accesses, site, context=None):
        if not self.capturing(stream):
            self.count(stream, site)
        super().launch(stream, operator, accesses, site, context)

    def replay(self, graph, stream, site):
        self.count(stream, site)
        super().replay(graph, stream, site)

    def count(self, stream, site):
        self.counts[stream] = self.counts.get(stream, 0) + 1
        self.sites[LaunchId(stream, self.counts[stream])] = site


def execute(program: Program) -> list[object]:
    """Run a program in this process and return its output."""
    linecache.cache[NAME] = (len(program.source), None, program.source.splitlines(keepends=True), NAME)
    names: dict[str, list[object]] = {"__name__": "random_program"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # newer versions of torch rename these collectives
            exec(compile(program.source, NAME, "exec"), names)
        return names["out"]
    finally:
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def run(program: Program, schedule: Schedule | None = None, pairs: tuple[Pair, ...] = ()) -> Run:
    """Run a program on simulated GPUs, optionally under a schedule and recording some pairs of launches."""
    exempt_living_objects()
    found, sites = NewFindings(), SiteTable()
    session = LineRecorder(found.add)
    if schedule is not None:
        os.environ[REQUEST] = Request(os.devnull, pairs).as_variable()
    simulator = Simulator(program.n_devices, session, sites, session.note, found, lambda: None, schedule=schedule)
    with simulator.watching():
        output = execute(program)
        simulator.finish()
    report = session.report(sites)
    assert not report.incomplete, report.incomplete
    findings = [
        finding
        for finding in report.findings
        if finding.level is not Severity.ADVICE and finding.rule is not dropped_work.RULE
    ]
    record = simulator.deferral.observations.record if simulator.deferral is not None else Record()
    lines = {launch: sites.location(site).frame.line for launch, site in session.sites.items()}
    return Run(output, findings, record, lines)
