"""Ranks open their windows together, following the decisions that rank 0 puts into the process group's store."""

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from syncheck.instrument import agreement
from syncheck.instrument.agreement import StoreAgreement, is_safe
from syncheck.run.budget import Controller
from syncheck.run.sampler import Sampler

N_RANKS = 3


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Rank:
    """A rank in a thread, whose steps take an individual time."""

    def __init__(self, number, seconds, slowdown):
        self.number, self.seconds, self.slowdown = number, seconds, slowdown
        self.clock = Clock()
        self.opened = []
        self.reasons = []
        self.is_open = False

    def open(self):
        self.is_open = True
        self.opened.append(self.sampler.controller.number)

    def close(self):
        self.is_open = False

    def failed(self, error):
        self.reasons.append(str(error))

    def run(self, steps, number):
        shared.rank = self.number
        agreed = StoreAgreement(self.reasons.append, is_expected=True, number=number)
        self.sampler = Sampler(Controller(0.05), self, self.clock, lambda: True, agreed)
        for _ in range(steps):
            self.clock.now += self.seconds * (self.slowdown if self.is_open else 1)
            self.sampler.ended("here")


shared = threading.local()


@pytest.fixture
def job(monkeypatch):
    """Return a function that runs ranks side by side; its `c10d` attribute is the fake torch module."""
    store = dist.HashStore()
    c10d = SimpleNamespace(
        is_initialized=lambda: True, get_world_size=lambda: N_RANKS, get_rank=lambda: shared.rank,
        _get_default_store=lambda: store,
    )  # fmt: skip
    monkeypatch.setattr(agreement, "c10d", c10d)
    monkeypatch.setattr(agreement, "_TIMEOUT", timedelta(seconds=60))

    def job(*steps, agreement=0, slowdown=3):
        ranks = [Rank(number, 0.01 * (1 + number), slowdown) for number in range(N_RANKS)]
        threads = [
            threading.Thread(target=rank.run, args=(steps[min(rank.number, len(steps) - 1)], agreement))
            for rank in ranks
        ]
        for thread in reversed(threads):  # rank 0 last: the others must wait for its decisions
            thread.start()
        for thread in threads:
            thread.join()
        return ranks

    job.c10d, job.monkeypatch = c10d, monkeypatch
    return job


def test_all_ranks_open_their_windows_at_the_same_steps(job):
    ranks = job(1000)
    assert len(ranks[0].opened) > 8
    assert ranks[0].opened == ranks[1].opened == ranks[2].opened
    assert [rank.reasons for rank in ranks] == [[], [], []]


def test_a_second_watch_of_a_job_does_not_adopt_the_decisions_of_the_first(job):
    first, second = job(1000), job(1000, agreement=1, slowdown=30)
    assert second[0].opened not in ([], first[0].opened)
    assert second[0].opened == second[1].opened == second[2].opened


def test_a_rank_abandoned_by_rank_0_stops_opening_windows_and_reports_why(job):
    job.monkeypatch.setattr(agreement, "_TIMEOUT", timedelta(seconds=1))
    ranks = job(300, 3000)
    assert ranks[1].opened[: len(ranks[0].opened)] == ranks[0].opened
    assert ranks[1].opened[len(ranks[0].opened) :] == []
    assert "because rank 0 decided on none there" in ranks[1].reasons[0]


def test_no_rank_opens_a_window_without_a_process_group(job):
    job.c10d.is_initialized = lambda: False
    assert [rank.opened for rank in job(100)] == [[], [], []]


def test_no_window_opens_inside_a_backward_pass():
    seen = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda _: seen.append(is_safe()))
    (x * 2).sum().backward()
    assert (seen, is_safe()) == ([False], True)
