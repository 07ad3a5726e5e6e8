"""Virtual GPUs, and the calls that they make to a monitor."""

from contextlib import ExitStack, contextmanager

import pytest

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.sanitizer.session import Session
from syncheck.sim.backend import Simulator
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.witness.schedule import Schedule
from tests.unit.recording import Recording


class Gpus:
    """Virtual GPUs for one block of a test.

    Attributes:
        calls: the calls so far, as text.
    """

    def __init__(self, n_devices):
        findings = NewFindings()
        self.session = Session(lambda rule: True, "virtual GPUs", findings.add)
        self.monitor = Recording(self.session, n_devices)
        self.sites, self.notes = SiteTable(), []
        self.simulator = Simulator(n_devices, self.monitor, self.sites, self.notes.append, findings, lambda: None)
        self.runtime = self.simulator.runtime

    @property
    def calls(self):
        return self.monitor.calls

    @contextmanager
    def calling(self):
        """Yield a list that holds the calls of the block once it has ended."""
        start, made = len(self.calls), []
        yield made
        self.simulator.flush_calls()
        made += self.calls[start:]

    def calls_of(self, function):
        """Return the calls that a function makes, including those caused by deleting its result."""
        with self.calling() as made:
            result = function()
            del result
        return made

    def codes(self):
        self.simulator.flush_calls()
        return [finding.rule.code for finding in self.session.report(self.sites).findings]


def watched(n_devices):
    gpus = Gpus(n_devices)
    with gpus.simulator.watching():
        yield gpus


@pytest.fixture
def gpu():
    """One virtual GPU."""
    yield from watched(1)


@pytest.fixture
def gpus():
    """Two virtual GPUs."""
    yield from watched(2)


@pytest.fixture
def scheduled():
    """Return a function that activates virtual GPUs under a schedule until the test ends and returns the simulator."""
    with ExitStack() as entered:

        def enter(*holds, n_devices=1):
            findings, schedule = NewFindings(), Schedule(0, holds)
            made = Simulator(
                n_devices, NullMonitor(), NoSites(), lambda _: None, findings, lambda: None, schedule=schedule
            )
            entered.enter_context(made.watching())
            return made

        yield enter
