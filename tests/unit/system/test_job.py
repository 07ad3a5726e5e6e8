"""The place of this process in a job."""

import pytest

from syncheck.system import job


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "rank", "is_distributed"),
    [
        ({}, 0, False),
        ({"RANK": "1", "WORLD_SIZE": "2"}, 1, True),
        ({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, 5, True),
        ({"LOCAL_RANK": "3", "WORLD_SIZE": "4"}, 3, True),
        ({"RANK": "0", "WORLD_SIZE": "1"}, 0, False),
        ({"RANK": "3"}, 0, False),
        ({"WORLD_SIZE": "2"}, 0, True),
        ({"RANK": "", "WORLD_SIZE": ""}, 0, False),
        ({"RANK": "one", "WORLD_SIZE": "two"}, 0, False),
    ],
)
def test_the_rank_is_that_of_the_launcher(environment, rank, is_distributed, monkeypatch):
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert (job.rank(), job.is_distributed()) == (rank, is_distributed)


def test_a_process_without_a_launcher_has_no_rank(monkeypatch):
    assert job.rank_and_size() == (-1, 0)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert job.rank_and_size() == (0, 1)
