"""Torch functions by the names that programs use, compared with torch itself."""

import pytest
import torch

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.semantics import python_api
from syncheck.semantics.python_api import operator_of
from syncheck.semantics.waits import HostWait, host_wait
from syncheck.sim.backend import Simulator
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.null_monitor import NoSites, NullMonitor

FACTS = TorchFacts(lambda tensor: tensor.is_cuda)
NOT_BY_NAME = {
    "__getitem__": "an index is no function: the linter follows it by itself",
    "norm": "only the nuclear norm takes an SVD",
    "nn.functional.one_hot": "only where the number of classes is left out",
}
"""Functions whose name does not determine whether the host waits."""

OF_OLDER_TORCH = {"names", "has_names", "rename", "refine_names"}


class Waits(NullMonitor):
    """Records operators in which the host waited; for copies the memory of both ends decides."""

    def __init__(self):
        self.operator, self.waited = "", []

    def launch(self, stream, operator, accesses, site, context=None):
        self.operator = operator

    def sync_stream(self, stream, site, *, explicit):
        if self.operator != "aten::copy_":
            self.waited.append(self.operator)


def on_gpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("cuda")
    return type(value)(map(on_gpu, value)) if isinstance(value, list | tuple) else value


def samples(table):
    """Yield each entry with a first sample without gradients, made on the CPU for reproducible random numbers."""
    for entry in table:
        dtype = next((d for d in (torch.float32, torch.int64) if d in entry.supported_dtypes("cpu")), None)
        for sample in entry.sample_inputs_func(entry, "cpu", dtype, requires_grad=False) if dtype else ():
            yield entry, sample
            break


@pytest.mark.filterwarnings("ignore")
def test_the_host_waits_in_the_same_functions_as_in_the_simulator(operator_table):
    waits, wrong, n_compared, n_waiting = Waits(), {}, 0, 0
    made = list(samples(operator_table))
    with Simulator(1, waits, NoSites(), lambda _: None, NewFindings(), lambda: None).watching():
        for entry, sample in made:
            try:
                args = (on_gpu(sample.input), *on_gpu(tuple(sample.args)))
                kwargs = {name: on_gpu(value) for name, value in sample.kwargs.items()}
                waits.waited.clear()
                entry.op(*args, **kwargs)
            except (NotSimulatedError, NotImplementedError, AssertionError):
                continue  # sparse tensors and the program's own kernels
            n_compared += 1
            n_waiting += bool(waits.waited)
            expected = host_wait(operator_of(entry.name), args, kwargs, FACTS) is not HostWait.NEVER
            if bool(waits.waited) != expected and entry.name not in NOT_BY_NAME:
                wrong[entry.name] = list(waits.waited)
    assert wrong == {}
    assert n_compared > 650
    assert n_waiting > 30


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("item", "_local_scalar_dense"),
        ("__bool__", "_local_scalar_dense"),
        ("linalg.inv", "_linalg_check_errors"),
        ("inverse", "_linalg_check_errors"),
        ("nn.functional.relu", "relu"),
        ("add_", "add_"),
        ("special.expit", "expit"),
    ],
)
def test_a_function_maps_to_the_operator_of_its_name_unless_it_calls_another(name, operator):
    assert operator_of(name) == operator


@pytest.mark.parametrize(
    "names", ["MEMBERS_WITHOUT_MEMORY", "ALIASES", "PARTS", "OVERWRITING", "NEW", "RETURNING_VALUES"]
)
def test_methods_are_methods_of_tensors_or_functions_of_torch(names):
    known = set(dir(torch.Tensor)) | set(dir(torch)) | OF_OLDER_TORCH
    assert getattr(python_api, names) - known == set()


@pytest.mark.parametrize("names", ["FACTORIES", "LIKE"])
def test_functions_are_functions_of_torch(names):
    assert [name for name in getattr(python_api, names) if not callable(getattr(torch, name, None))] == []


@pytest.mark.filterwarnings("ignore:.*T.*deprecated")
def test_aliases_share_memory_and_overwriting_methods_end_in_an_underscore():
    x = torch.arange(4.0).reshape(2, 2)
    for name in ("view_as", "expand_as"):
        assert getattr(x, name)(x).data_ptr() == x.data_ptr()
    for name in ("flatten", "ravel", "detach", "t", "contiguous", "mT", "T", "squeeze", "requires_grad_"):
        member = getattr(x, name)
        assert (member() if callable(member) else member).data_ptr() == x.data_ptr()
    assert all(name.endswith("_") for name in python_api.OVERWRITING)


@pytest.mark.parametrize("name", sorted(python_api.LIKE))
def test_a_tensor_made_like_another_has_its_size(name):
    args = {"randint_like": (5,), "full_like": (1.0,)}.get(name, ())
    assert getattr(torch, name)(torch.ones(2, 3), *args).shape == (2, 3)
