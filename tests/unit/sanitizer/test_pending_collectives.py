"""Asynchronous collectives that are never waited for."""

import pytest

from syncheck.sanitizer import pending_collectives
from syncheck.sanitizer.pending_collectives import PendingCollectives
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

NCCL = 3


class Job:
    def __init__(self):
        self.collector = new_collector()
        self.engine = new_engine(3, self.collector)
        self.pending = PendingCollectives(self.engine, self.collector)

    def start(self, site, operator="c10d::allreduce_"):
        self.engine.launch(NCCL, (), 1)
        self.pending.add(NCCL, operator, site)

    def found(self):
        self.pending.report()
        return found(self.collector)


@pytest.fixture
def job():
    return Job()


def test_a_collective_that_nothing_waits_for_is_reported_at_the_end(job):
    job.start(10)
    assert found(job.collector) == []
    assert job.found() == [("SYN603", 10, 1)]
    (finding,) = job.collector.findings(Text("\n" * 9 + "dist.all_reduce(x, async_op=True)\n"))
    assert "`all_reduce`" in finding.message
    assert "keep its handle" in finding.help


@pytest.mark.parametrize("wait", ["stream", "host"])
def test_who_waits_for_it_does_not_matter(job, wait):
    job.start(10)
    if wait == "stream":
        job.engine.wait_stream(1, NCCL)
    else:
        job.engine.sync_stream(NCCL)
    assert job.found() == []


def test_a_wait_covers_what_was_started_before_it(job):
    job.start(10)
    job.engine.wait_stream(1, NCCL)
    job.start(20)
    assert job.found() == [("SYN603", 20, 1)]


def test_a_loop_is_one_finding(job):
    for _ in range(3):
        job.start(10)
    assert job.found() == [("SYN603", 10, 3)]


def test_what_was_reported_is_not_reported_again(job):
    job.start(10)
    job.pending.report()
    assert job.found() == [("SYN603", 10, 1)]


def test_of_many_that_are_in_flight_the_oldest_are_forgotten(job, monkeypatch):
    monkeypatch.setattr(pending_collectives, "_MOST_KEPT", 4)
    job.start(10)
    job.engine.wait_stream(1, NCCL)
    for site in (20, 30, 40, 50):
        job.start(site)
    assert [line for _, line, _ in job.found()] == [40, 50]
