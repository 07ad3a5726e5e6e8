"""The dispatch mode."""

from contextlib import nullcontext

import pytest
import torch
from functorch.compile import aot_function, nop
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture
def library():
    with torch.library._scoped_library("mode_test", "FRAGMENT") as made:
        made.define("twice(Tensor x) -> Tensor")
        yield made


def twice_in_new_memory(x):
    out = torch.empty(x.shape, device=x.device)
    torch.mul(x, 2, out=out)
    return out


@pytest.mark.parametrize("key", ["CompositeExplicitAutograd", "CUDA"])
def test_operators_called_by_a_python_kernel_are_observed(gpu, library, key):
    library.impl("twice", twice_in_new_memory, key)
    x = torch.ones(2, device="cuda")
    with gpu.calling() as made:
        y = torch.ops.mode_test.twice(x)
    assert y.is_cuda
    assert y.tolist() == [2, 2]
    assert any("mul r1 w2" in call for call in made)


def test_the_cpu_kernel_is_preferred_to_a_cuda_kernel_in_python(gpu, library):
    def launch_triton(x):
        raise AssertionError(x)

    library.impl("twice", twice_in_new_memory, "CPU")
    library.impl("twice", launch_triton, "CUDA")
    assert torch.ops.mode_test.twice(torch.ones(2, device="cuda")).tolist() == [2, 2]


def test_the_python_kernel_matches_the_device_of_the_tensors(gpu, library):
    library.impl("twice", twice_in_new_memory, "CPU")
    library.impl("twice", torch.empty_like, "Meta")
    assert torch.ops.mode_test.twice(torch.ones(2, device="meta")).is_meta
    assert torch.ops.mode_test.twice(torch.ones(2)).tolist() == [2, 2]


def test_a_cuda_kernel_is_not_run_for_host_tensors(gpu, library):
    library.impl("twice", twice_in_new_memory, "CUDA")
    with pytest.raises(NotImplementedError, match="'mode_test::twice' with arguments from the 'CPU' backend"):
        torch.ops.mode_test.twice(torch.ones(2))


def test_a_kernel_registered_later_is_used(gpu):
    @torch.library.custom_op("mode_test::one_more", mutates_args=())
    def one_more(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(2)
    assert one_more(x).tolist() == [2, 2]
    one_more.register_kernel("cpu")(lambda x: x + 2)
    assert one_more(x).tolist() == [3, 3]


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")  # torch's advice
def test_an_operator_without_a_derivative_uses_those_of_its_python_kernel(gpu, library):
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.ones(2, device="cuda", requires_grad=True)
    torch.ops.mode_test.twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_torch_dynamo_recognizes_the_replaced_properties_of_tensors(gpu):
    for name in ("grad", "device", "is_cuda"):
        getter = getattr(torch.Tensor, name).__get__  # read by torch._dynamo.utils.is_tensor_base_attr_getter
        assert getter.__self__.__objclass__ is torch._C.TensorBase
        assert getter.__self__.__name__ == name


def test_aotautograd_traces_on_the_cpu(gpu):
    x = torch.ones(2, requires_grad=True)
    compiled = aot_function(lambda x: (x.sin() * 2).sum(), nop)
    compiled(x).backward()
    assert torch.equal(x.grad, torch.ones(2).cos() * 2)


def test_a_race_inside_a_python_operator_is_found(gpu):
    @torch.library.custom_op("mode_test::on_a_side_stream", mutates_args=())
    def on_a_side_stream(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(torch.cuda.Stream()):
            return x * 2

    x = torch.ones(2, device="cuda")
    on_a_side_stream(x)
    assert gpu.codes() == ["SYN101"]


def test_a_python_operator_without_tensor_arguments_can_create_one_on_a_gpu(gpu):
    @torch.library.custom_op("mode_test::filled", mutates_args=())
    def filled(n: int, device: torch.device) -> torch.Tensor:
        return torch.full((n,), 2.0, device=device)

    assert filled(3, torch.device("cuda")).is_cuda


def test_a_python_operator_uses_its_own_gradient(gpu):
    @torch.library.custom_op("mode_test::cubed", mutates_args=())
    def cubed(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cubed.register_autograd(
        lambda ctx, grad: grad * 7, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    x = torch.ones(2, device="cuda", requires_grad=True)
    cubed(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_fake_tensors_have_no_memory(gpu):
    with FakeTensorMode():
        torch.ones(2) + 1
        assert gpu.calls_of(lambda: torch.ones(2) + 1) == []


def test_a_wrapper_subclass_is_decomposed(gpu):
    class Doubled(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*(arg.inner if isinstance(arg, Doubled) else arg for arg in args), **(kwargs or {}))

    x = torch.ones(3, device="cuda")
    assert "launch cuda:0 mul r1 w2" in gpu.calls_of(lambda: Doubled(x).mul(2))


def test_a_plain_subclass_is_an_ordinary_tensor(gpu):
    class Named(torch.Tensor):
        pass

    x = torch.ones(3, device="cuda").as_subclass(Named)
    assert "launch cuda:0 mul r1 w2" in gpu.calls_of(lambda: x.mul(2))


def test_the_host_reads_the_condition_of_a_branch(gpu):
    x = torch.ones(3, device="cuda")
    made = gpu.calls_of(lambda: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))
    assert "sync cuda:0" in made
    assert any("launch cuda:0 sin" in call for call in made)


@pytest.mark.parametrize("ask", [bool, float, torch.Tensor.item], ids=["bool", "float", "item"])
def test_the_host_also_waits_in_inference_mode(gpu, ask):
    """Without gradients, composite operators reach the mode undecomposed."""
    x = torch.ones(1, device="cuda")
    with torch.inference_mode():
        assert gpu.calls_of(lambda: ask(x)) == ["launch cuda:0 _local_scalar_dense r1", "sync cuda:0"]
        layer = torch.nn.Linear(4, 4, device="cuda")
        made = gpu.calls_of(lambda: layer(torch.ones(2, 4, device="cuda")))
    assert any(call.startswith("launch cuda:0 addmm") for call in made)


def test_an_inactive_dropout_returns_its_input_in_inference_mode(gpu):
    with torch.inference_mode():
        x = torch.ones(2, device="cuda")
        assert torch.nn.functional.dropout(x, training=False) is x


def test_python_kernels_do_not_replace_native_kernels(gpu):
    x = torch.randn(1, 2, 3, 3, device="cuda")
    made = gpu.calls_of(lambda: torch.nn.functional.interpolate(x, scale_factor=2))
    assert [call for call in made if call.startswith("launch")] == ["launch cuda:0 upsample_nearest2d r1 w2"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_operator_implemented_for_nested_tensors_is_not_decomposed(gpu):
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], device="cuda")
    layer = torch.nn.Linear(4, 2, device="cuda")
    made = gpu.calls_of(lambda: layer(rows))
    assert any("linear" in call for call in made)
    assert layer(rows).unbind()[1].shape == (3, 2)


@torch.library.custom_op("mode_test::product", mutates_args=())
def product(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).clone()


@pytest.mark.parametrize("context", [nullcontext, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    ("compute", "dtype"),
    [
        (lambda x: torch.einsum("ij,jk->ik", x, x), torch.bfloat16),
        (lambda x: torch.linalg.matrix_power(x, 3), torch.bfloat16),
        (lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), torch.bfloat16),
        (torch.cov, torch.bfloat16),
        (lambda x: torch.nn.functional.cross_entropy(x @ x, x.long()[0]), torch.float32),
        (product, torch.bfloat16),
    ],
    ids=["einsum", "power", "attention", "cov", "loss", "library"],
)
def test_autocast_applies_to_operators_inside_others(compute, dtype, context, gpu):
    """A mode runs below autocast, where the inner operators of `cov` would compute in float32."""
    x = torch.zeros(4, 4, device="cuda")
    with context(), torch.autocast("cuda", torch.bfloat16):
        assert compute(x).dtype == dtype
    with context():
        assert compute(x).dtype == torch.float32


@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
def test_conjugated_views_are_materialized_for_kernels_that_do_not_support_them(context, gpu):
    """Below a mode, such kernels would read them as if they were not conjugated."""
    x = torch.randn(5, 5, dtype=torch.complex64)
    plain = torch.linalg.inv(x), torch.fft.irfft(x.conj(), norm="forward")
    with context():
        made = torch.linalg.pinv(x.cuda()), torch.fft.hfft(x.cuda())
    assert all(torch.allclose(a.cpu(), b, rtol=1e-3, atol=1e-3) for a, b in zip(made, plain, strict=True))


def test_a_subclass_receives_no_extra_queries_about_its_tensors(gpu):
    calls = []

    class RecordingTensor(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, device="cuda").as_subclass(RecordingTensor)
    calls.clear()
    x.mul(2)
    torch.empty_like(x)
    assert calls == [torch.Tensor.mul, torch.empty_like]


def test_operators_that_call_a_function_run_it(gpu):
    x = torch.ones(2, device="cuda")
    made = gpu.calls_of(lambda: torch._higher_order_ops.invoke_quant_packed(lambda x: (x * 3,), x))
    assert "launch cuda:0 mul r1 w2" in made


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_convolution_can_be_traced(gpu):
    network, x = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()), torch.ones(1, 1, 4, 4)
    traced = torch.jit.trace(network, x)
    assert [node.kind() for node in traced.inlined_graph.nodes()].count("aten::_convolution") == 1
    assert torch.equal(traced(x + 1), network(x + 1))
