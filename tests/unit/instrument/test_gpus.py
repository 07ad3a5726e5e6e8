"""What a backend provides to report GPU work that torch does not dispatch."""

import inspect

import pytest

from syncheck.cuda.gpus import CudaGpus
from syncheck.instrument.gpus import Gpus
from syncheck.sim.gpus import SimulatedGpus


@pytest.mark.parametrize("backend", [CudaGpus, SimulatedGpus])
@pytest.mark.parametrize("name", [name for name in vars(Gpus) if not name.startswith("_")])
def test_each_backend_provides_it(backend, name):
    assert inspect.signature(getattr(backend, name)) == inspect.signature(getattr(Gpus, name))
