"""What the tests of the rules share."""

from collections.abc import Iterator

import pytest
from simulated import Runner


@pytest.fixture(scope="session")
def simulator() -> Iterator[Runner]:
    """What runs the fixtures."""
    runner = Runner("sim")
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def gpus() -> Iterator[Runner]:
    """What runs the fixtures on real GPUs."""
    runner = Runner("cuda")
    yield runner
    runner.close()
