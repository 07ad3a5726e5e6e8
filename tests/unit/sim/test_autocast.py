"""`torch.autocast("cuda")` follows CUDA's lists of operators."""

import pytest
import torch


@pytest.fixture
def x(gpu):
    return torch.ones(2, 2, device="cuda")


@pytest.mark.parametrize(
    ("work", "dtype"),
    [
        (lambda x: x @ x, torch.float16), (lambda x: x + x, torch.float32), (lambda x: x.half().exp(), torch.float32),
        (lambda x: x.half().sum(), torch.float32), (lambda x: x.half().sum(dtype=torch.float16), torch.float16),
        (lambda x: torch.addcmul(x.half(), x, x.half()), torch.float32),
        (lambda x: x.double() @ x.double(), torch.float64),
        (lambda x: x.half() + x.half(), torch.float16),
    ],
    ids=["mm", "add", "exp", "sum", "sum to half", "the widest", "double", "no list"],
)  # fmt: skip
def test_each_operator_list_has_its_precision(x, work, dtype):
    with torch.autocast("cuda"):
        assert work(x).dtype == dtype


def test_the_lower_precision_can_be_chosen(x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    with torch.autocast("cuda", enabled=False):
        assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("network", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_recurrent_networks_compute_in_half_precision(gpu, network, dtype):
    model, data = network(2, 2).cuda(), torch.ones(3, 1, 2, device="cuda")
    packed = torch.nn.utils.rnn.pack_padded_sequence(data, torch.tensor([3]))
    with torch.autocast("cuda", dtype=dtype):
        output, _ = model(data)
        assert output.dtype == model(packed)[0].data.dtype == torch.float16
    output.sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in model.parameters())
    assert model(data)[0].dtype == torch.float32


def test_cpu_tensors_are_not_affected(x):
    with torch.autocast("cuda"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


def test_autocast_blocks_can_be_nested(x):
    with torch.autocast("cuda"):
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.float16
    assert (x @ x).dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu")


def test_binary_cross_entropy_is_banned_as_on_cuda(x):
    probability = torch.full((2, 2), 0.5)
    with torch.autocast("cuda"):
        assert torch.nn.functional.binary_cross_entropy(probability, probability) > 0  # on the CPU
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x.half(), x.half())
