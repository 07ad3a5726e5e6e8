"""Every fixture, run in the simulator, gives the findings that its markers expect, and no others."""

from pathlib import Path

import markers
import pytest
import simulated
from simulated import Simulator


@pytest.mark.parametrize("path", markers.fixtures(), ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_the_simulator_finds_what_the_markers_expect(path: Path, simulator: Simulator) -> None:
    expected = markers.read(path)
    wrong = simulated.problems(expected, simulator.outcome(path))
    assert not wrong, "\n".join([str(path), *wrong])
