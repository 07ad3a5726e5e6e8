"""What the tests of the rules share."""

from collections.abc import Iterator

import pytest
from simulated import Runner


@pytest.fixture(scope="session")
def simulator() -> Iterator[Runner]:
    """The one worker that runs the fixtures."""
    worker = Runner("sim")
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def gpus() -> Iterator[Runner]:
    """The one worker that runs the fixtures on real GPUs."""
    worker = Runner("cuda")
    yield worker
    worker.close()
