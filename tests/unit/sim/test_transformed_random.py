"""Random operators inside the transforms of `torch.func` draw from the generator of their device."""

import pytest
import torch
from torch.nn import functional

from syncheck.instrument.torch_internals import OUTERMOST, C, registrations_for_key
from syncheck.sim.transformed_random import OPERATORS

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself

DROPOUTS = {
    "dropout": functional.dropout,
    "in place": lambda row: functional.dropout(row.clone(), inplace=True),
    "alpha": lambda row: functional.alpha_dropout(row, training=True),
    "feature": lambda row: functional.dropout1d(row[:, None])[:, 0],
    "feature alpha": lambda row: functional.feature_alpha_dropout(row[:, None], training=True)[:, 0],
    "attention": lambda row: functional.scaled_dot_product_attention(*[row.view(1, 8, 8)] * 3, dropout_p=0.5),
}
IN_PLACE = {
    "uniform": lambda row: row.clone().uniform_(),
    "normal": lambda row: row.clone().normal_(),
    "exponential": lambda row: row.clone().exponential_(),
    "bernoulli": lambda row: row.clone().bernoulli_(0.5),
    "random": lambda row: row.clone().random_(1000),
    "gumbel": functional.gumbel_softmax,
}
WORK = DROPOUTS | IN_PLACE


def test_all_operators_are_known_for_which_torch_creates_a_tensor():
    dropouts = {name for name in registrations_for_key("FuncTorchDynamicLayerFrontMode") if "dropout" in name}
    in_place = {name for name in registrations_for_key("FuncTorchVmapMode") if name.partition(".")[0].endswith("_")}
    known = {name.removeprefix("aten::") for name in dropouts | in_place}
    assert known - {"rrelu_", "rrelu_with_noise_"} == set(OPERATORS)  # torch rejects these two


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK.keys())
def test_each_operator_draws_from_its_gpu(gpu, work, randomness):
    x = torch.ones(3, 64, device="cuda")

    def drawn(seed):
        torch.cuda.manual_seed(seed)
        return torch.vmap(work, randomness=randomness)(x)

    on_host = torch.get_rng_state()
    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first.is_cuda
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first[0], first[1]) == (randomness == "same")
    assert torch.equal(torch.get_rng_state(), on_host)
    assert torch.cuda.default_generators[0].get_offset() > 0


@pytest.mark.parametrize(
    "transform",
    [
        torch.func.grad(lambda value: functional.dropout(value).sum()),
        lambda x: torch.func.jvp(functional.dropout, (x,), (x,))[1],
        torch.func.jacrev(functional.dropout),
        torch.vmap(torch.func.grad(lambda row: functional.dropout(row).sum()), randomness="different"),
    ],
    ids=["grad", "jvp", "jacrev", "per sample"],
)
def test_every_transform_draws_from_the_gpu(gpu, transform):
    x, on_host = torch.ones(4, 16, device="cuda"), torch.get_rng_state()
    before = torch.cuda.get_rng_state()
    first = transform(x)
    torch.cuda.set_rng_state(before)
    assert torch.equal(transform(x), first)
    assert torch.equal(torch.get_rng_state(), on_host)


def test_each_gpu_draws_for_its_own_tensors(gpus):
    x, before = torch.ones(3, 8, device="cuda:1"), torch.cuda.get_rng_state(0)
    assert torch.vmap(functional.dropout, randomness="same")(x).device.index == 1
    assert torch.equal(torch.cuda.get_rng_state(0), before)
    assert torch.cuda.default_generators[1].get_offset() > 0


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("work", [functional.dropout, IN_PLACE["uniform"]], ids=["dropout", "in place"])
def test_host_tensors_draw_from_the_cpu(gpu, work, randomness):
    on_gpu, drawn = torch.cuda.get_rng_state(), []
    unused = torch.ones(3, device="cuda")
    for _ in range(2):
        torch.manual_seed(1)
        torch.cuda.set_rng_state(on_gpu)
        both = torch.vmap(lambda row, number: (number * 2, work(row)), randomness=randomness)
        drawn.append(both(torch.ones(3, 8), unused)[1])
    assert not drawn[0].is_cuda
    assert torch.equal(*drawn)
    assert torch.equal(torch.cuda.get_rng_state(), on_gpu)


def test_a_replay_draws_new_numbers(gpu):
    x, graph = torch.ones(3, 32, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = torch.vmap(functional.dropout, randomness="different")(x)
    drawn = []
    for seed in (1, 2, 1):
        torch.cuda.manual_seed(seed)
        graph.replay()
        drawn.append(result.tolist())
    assert drawn[0] == drawn[2] != drawn[1]


def test_launches_of_a_transformed_dropout_are_reported(gpu):
    x = torch.ones(3, 8, device="cuda")
    calls = gpu.calls_of(lambda: torch.vmap(functional.dropout, randomness="same")(x))
    assert [call.split()[2] for call in calls if call.startswith("launch")] == ["bernoulli", "div_", "mul"]


def test_operators_outside_of_transforms_are_not_intercepted(gpu):
    x = torch.ones(3, 8, device="cuda")
    torch.vmap(functional.dropout, randomness="same")(x)
    assert not C._dispatch_tls_local_include_set().has(C._parse_dispatch_key(OUTERMOST))
