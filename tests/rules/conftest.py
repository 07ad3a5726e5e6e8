"""Fixtures shared by the tests of the rules."""

from collections.abc import Iterator

import pytest
from simulated import Runner


@pytest.fixture(scope="session")
def simulator() -> Iterator[Runner]:
    """The runner of the rule fixtures on simulated GPUs."""
    runner = Runner("sim")
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def gpus() -> Iterator[Runner]:
    """The runner of the rule fixtures on real GPUs."""
    runner = Runner("cuda")
    yield runner
    runner.close()
