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


def test_an_unawaited_collective_is_reported_at_the_end(job):
    job.start(10)
    assert found(job.collector) == []
    assert job.found() == [("SYN603", 10, 1)]
    (finding,) = job.collector.findings(Text("\n" * 9 + "dist.all_reduce(x, async_op=True)\n"))
    assert "`all_reduce`" in finding.message
    assert "keep its handle" in finding.help


@pytest.mark.parametrize("wait", ["stream", "host"])
def test_a_wait_by_a_stream_or_the_host_is_enough(job, wait):
    job.start(10)
    if wait == "stream":
        job.engine.wait_stream(1, NCCL)
    else:
        job.engine.sync_stream(NCCL)
    assert job.found() == []


def test_a_wait_covers_only_earlier_collectives(job):
    job.start(10)
    job.engine.wait_stream(1, NCCL)
    job.start(20)
    assert job.found() == [("SYN603", 20, 1)]


def test_a_loop_is_one_finding(job):
    for _ in range(3):
        job.start(10)
    assert job.found() == [("SYN603", 10, 3)]


def test_a_reported_collective_is_not_reported_again(job):
    job.start(10)
    job.pending.report()
    assert job.found() == [("SYN603", 10, 1)]


def test_the_number_of_pending_collectives_is_bounded(job, monkeypatch):
    monkeypatch.setattr(pending_collectives, "_MAX_KEPT", 4)
    job.start(10)
    job.engine.wait_stream(1, NCCL)
    for site in (20, 30, 40, 50):
        job.start(site)
    assert [line for _, line, _ in job.found()] == [40, 50]
