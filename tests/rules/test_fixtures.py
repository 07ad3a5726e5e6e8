"""In the simulator and on real GPUs, every fixture gives exactly the findings that its markers expect."""

from pathlib import Path

import markers
import pytest
import simulated
from simulated import Runner


@pytest.mark.parametrize("path", markers.fixtures(), ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_the_simulator_finds_what_the_markers_expect(path: Path, simulator: Runner) -> None:
    expected = markers.read(path)
    wrong = simulated.problems(expected, simulator.outcome(path))
    assert not wrong, "\n".join([str(path), *wrong])


@pytest.mark.gpu
@pytest.mark.parametrize("path", markers.fixtures(), ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_real_gpus_find_what_the_markers_expect(path: Path, gpus: Runner) -> None:
    import torch  # imported only if there are GPUs

    expected = markers.read(path)
    if expected.devices > torch.cuda.device_count():
        pytest.skip(f"needs {expected.devices} GPUs")
    wrong = simulated.problems(expected, gpus.outcome(path))
    assert not wrong, "\n".join([str(path), *wrong])
