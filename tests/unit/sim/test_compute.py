"""Computation of operators on the CPU."""

import pytest
import torch

from syncheck.instrument.plan import plan_of
from syncheck.sim.compute import Compute
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.gpu_trace import GpuTrace
from syncheck.sim.memory import Memory
from syncheck.sim.null_monitor import NoSites, NullMonitor
from syncheck.sim.random import Random
from syncheck.sim.virtual_gpus import VirtualGpus


@pytest.fixture
def random():
    return Random(2)


@pytest.fixture
def compute(random):
    gpus = VirtualGpus(2, NullMonitor(), NoSites())
    return Compute(random, Memory(gpus, GpuTrace(gpus)))


def run(compute, operator, *args, device=0, **kwargs):
    return compute.run(operator, plan_of(operator), args, kwargs, device)


def test_an_operator_runs(compute):
    assert run(compute, torch.ops.aten.add.Tensor, torch.ones(2), torch.ones(2)).tolist() == [2, 2]


def test_a_random_operator_draws_from_its_devices_generator(compute, random):
    random.defaults[1].manual_seed(3)
    random.defaults[0].manual_seed(3)
    state = torch.default_generator.get_state()
    operator = torch.ops.aten.native_dropout.default
    first = run(compute, operator, torch.ones(20), 0.5, True, device=1)[1]
    assert torch.equal(torch.default_generator.get_state(), state)
    assert torch.equal(run(compute, operator, torch.ones(20), 0.5, True, device=0)[1], first)


def test_an_operator_with_a_generator_parameter_gets_the_devices(compute, random):
    plan = plan_of(torch.ops.aten.uniform_.default)
    _, kwargs = compute.with_generator(plan, (torch.ones(2),), {}, 1)
    assert kwargs["generator"] is random.defaults[1]
    own = torch.Generator()
    assert compute.with_generator(plan, (), {"generator": own}, 1)[1]["generator"] is own
    assert compute.with_generator(plan_of(torch.ops.aten.add.Tensor), (), {}, 1)[1] == {}


def test_an_operator_without_a_kernel_is_not_simulated(compute):
    def missing(*_):
        raise NotImplementedError("no kernel")

    with pytest.raises(NotSimulatedError, match="the operator aten::mm is not simulated"):
        compute.run(missing, plan_of(torch.ops.aten.mm.default), (), {}, 0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.", torch.OutOfMemoryError),
        ("other", RuntimeError),
    ],
)
def test_a_failed_allocation_is_reported_as_the_devices(compute, text, kind):
    def fail(*_):
        raise RuntimeError(text)

    with pytest.raises(RuntimeError) as error:
        compute.run(fail, plan_of(torch.ops.aten.mm.default), (), {}, 1)
    assert type(error.value) is kind
