"""`torch.autocast("cuda")` follows CUDA's lists of operators."""

import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint


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


def product_of(tensor):
    return (tensor @ tensor).dtype


@pytest.mark.parametrize("outer", ["cuda", "cpu"])
def test_both_device_types_have_their_own_autocast(x, outer):
    inner = {"cuda": "cpu", "cpu": "cuda"}[outer]
    tensors = {"cuda": x, "cpu": torch.ones(2, 2)}
    lower = {"cuda": torch.float16, "cpu": torch.bfloat16}
    with torch.autocast(outer):
        assert (torch.is_autocast_enabled(outer), torch.is_autocast_enabled(inner)) == (True, False)
        assert torch.is_autocast_enabled() == (outer == "cuda")
        assert (product_of(tensors[outer]), product_of(tensors[inner])) == (lower[outer], torch.float32)
        with torch.autocast(inner):
            assert [product_of(tensors[name]) for name in lower] == list(lower.values())
            with torch.autocast(outer, enabled=False):
                assert (product_of(tensors[outer]), product_of(tensors[inner])) == (torch.float32, lower[inner])
        with torch.autocast(inner, enabled=False):
            assert (product_of(tensors[outer]), product_of(tensors[inner])) == (lower[outer], torch.float32)
    assert {product_of(tensor) for tensor in tensors.values()} == {torch.float32}


def test_each_device_type_has_its_own_precision(x):
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.float16):
        assert (torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu")) == (torch.bfloat16, torch.float16)
        assert (product_of(x), product_of(torch.ones(2, 2))) == (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("is_on_gpu", [False, True])
def test_each_device_type_has_its_own_operator_lists(x, is_on_gpu):
    """Only the list of CUDA has `exp`, and only that of the CPU has `trace`."""
    half, host = x.half(), torch.ones(2, 2).half()
    with torch.autocast("cuda", enabled=is_on_gpu), torch.autocast("cpu"):
        assert (half.exp().dtype, host.exp().dtype) == (torch.float32 if is_on_gpu else torch.float16, torch.float16)
        assert (half.trace().dtype, host.trace().dtype) == (torch.float16, torch.float32)


def test_a_weight_is_cast_for_each_device_type(x):
    weights = [torch.ones(2, 2, device=device, requires_grad=True) for device in ("cuda", "cpu")]
    with torch.autocast("cuda"), torch.autocast("cpu"):
        for _ in range(2):
            assert [product_of(weight) for weight in weights] == [torch.float16, torch.bfloat16]
        torch.clear_autocast_cache()
        assert [product_of(weight) for weight in weights] == [torch.float16, torch.bfloat16]


def test_a_function_sees_the_autocast_of_its_device_type(x):
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, value):
            seen.append((torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")))
            return value @ value

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            seen.append((product_of(x), product_of(torch.ones(2, 2))))
            return gradient

    value = x.half().requires_grad_()
    with torch.autocast("cuda"), torch.autocast("cpu"):
        result = Product.apply(value)
        result.sum().backward()
    assert result.dtype == torch.float32
    assert seen == [(False, True), (torch.float32, torch.bfloat16)]


def test_a_recomputed_block_has_the_autocast_of_its_first_run(x):
    seen = []

    def block(value):
        seen.append((product_of(value), product_of(torch.ones(2, 2)), torch.is_autocast_enabled("cpu")))
        return value.exp()

    with torch.autocast("cuda"):
        result = checkpoint(block, x.requires_grad_(), use_reentrant=False)
    result.sum().backward()
    assert seen == [(torch.float16, torch.float32, False)] * 2


def test_a_thread_starts_without_autocast(x):
    seen = []

    def work():
        seen.append((product_of(x), product_of(torch.ones(2, 2))))
        with torch.autocast("cpu"):
            seen.append((product_of(x), product_of(torch.ones(2, 2))))

    with torch.autocast("cuda"), torch.autocast("cpu"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert product_of(x) == torch.float16
    assert seen == [(torch.float32, torch.float32), (torch.float32, torch.bfloat16)]


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_transforms_apply_the_autocast_of_the_tensors(gpu, device):
    x = torch.ones(2, 2, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.func.jvp(lambda value: value @ value, (x,), (x,))[1].dtype == torch.bfloat16
        assert torch.func.grad(lambda value: (value @ value).sum())(x).dtype == torch.float32
        assert torch.vmap(lambda row: row @ x)(x).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # made by torch.func itself
@pytest.mark.parametrize("autocast", ["cuda", "cpu"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_higher_order_operators_run_under_autocast(gpu, device, autocast):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(value):
            return value @ value

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0] * 2

    x = torch.ones(2, 2, device=device)
    with torch.autocast(autocast, dtype=torch.bfloat16):
        expected = torch.bfloat16 if device == autocast else torch.float32
        assert torch.cond(x.sum() > 0, torch.matmul, torch.add, (x, x)).dtype == expected
        assert torch.func.grad(lambda value: Square.apply(value).sum())(x).dtype == torch.float32


def test_an_operator_of_a_program_has_its_own_rule(gpu):
    with torch.library._scoped_library("for_autocast", "DEF") as library:
        library.define("copy(Tensor x) -> Tensor")
        library.impl("copy", torch.clone, "CompositeExplicitAutograd")
        torch.library.register_autocast("for_autocast::copy", "cuda", torch.float16, lib=library)
        with torch.autocast("cuda"):
            assert torch.ops.for_autocast.copy(torch.ones(2, device="cuda")).dtype == torch.float16
            assert torch.ops.for_autocast.copy(torch.ones(2)).dtype == torch.float32


@pytest.fixture
def restored_autocast():
    """Restore the state of autocast after a test that sets it directly."""
    yield
    for device, dtype in (("cuda", torch.float16), ("cpu", torch.bfloat16)):
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, dtype)


@pytest.mark.usefixtures("restored_autocast")
def test_autocast_can_be_enabled_without_a_block(x):
    host = torch.ones(2, 2)
    torch.set_autocast_enabled("cuda", True)
    assert (product_of(x), product_of(host)) == (torch.float16, torch.float32)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    assert product_of(x) == torch.bfloat16
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_enabled("cuda", False)
    assert (product_of(x), product_of(host)) == (torch.float32, torch.bfloat16)


@pytest.mark.filterwarnings("ignore:torch.set_autocast:DeprecationWarning")
@pytest.mark.usefixtures("restored_autocast")
def test_autocast_can_be_enabled_by_the_old_functions(x):
    host = torch.ones(2, 2)
    torch.set_autocast_enabled(True)
    torch.set_autocast_gpu_dtype(torch.bfloat16)
    assert (product_of(x), product_of(host)) == (torch.bfloat16, torch.float32)
    torch.set_autocast_enabled(False)
    torch.set_autocast_cpu_enabled(True)
    assert (product_of(x), product_of(host)) == (torch.float32, torch.bfloat16)


@pytest.mark.usefixtures("restored_autocast")
def test_autocast_can_be_disabled_within_a_block(x):
    with torch.autocast("cuda"):
        torch.set_autocast_enabled("cuda", False)
        assert product_of(x) == torch.float32
        torch.set_autocast_enabled("cuda", True)
        assert product_of(x) == torch.float16
    assert product_of(x) == torch.float32
