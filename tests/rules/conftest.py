"""What the tests of the rules share."""

from collections.abc import Iterator

import pytest
from simulated import Simulator


@pytest.fixture(scope="session")
def simulator() -> Iterator[Simulator]:
    """The one worker that runs the fixtures."""
    worker = Simulator()
    yield worker
    worker.close()
