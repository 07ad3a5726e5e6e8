"""Fixtures shared by the tests of the rules."""

import os
from collections.abc import Iterator

import pytest
from simulated import Runner


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """The runner of the rule fixtures on simulated GPUs. The workers of a test run share the outcomes."""
    base = tmp_path_factory.getbasetemp()
    runner = Runner("sim", shared=(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "outcomes")
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def gpus() -> Iterator[Runner]:
    """The runner of the rule fixtures on real GPUs."""
    runner = Runner("cuda")
    yield runner
    runner.close()
