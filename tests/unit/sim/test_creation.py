"""Creation of tensors on the virtual device that the program names."""

import pytest
import torch

MAKERS = {
    "tensor": lambda device: torch.tensor([1.0, 2.0], device=device),
    "as_tensor": lambda device: torch.as_tensor([1.0, 2.0], device=device),
    "zeros": lambda device: torch.zeros(2, device=device),
    "arange": lambda device: torch.arange(2.0, device=device),
    "zeros_like": lambda device: torch.zeros_like(torch.ones(2), device=device),
    "new_zeros": lambda device: torch.ones(2).new_zeros(2, device=device),
    "new_tensor": lambda device: torch.ones(2).new_tensor([1.0, 2.0], device=device),
    "new": lambda device: torch.ones(2, device=device).new(2),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("device", [1, "cuda:1", torch.device("cuda", 1)], ids=["number", "name", "device"])
def test_a_device_can_be_named_in_several_ways(gpus, name, device):
    assert MAKERS[name](device).device == torch.device("cuda", 1)


@pytest.mark.parametrize("name", MAKERS)
def test_the_device_may_be_omitted_in_a_device_block(gpus, name):
    with torch.device("cuda:1"):
        assert MAKERS[name](None).device.type == "cuda"


def test_values_are_copied_to_the_device_and_the_host_waits(gpu):
    assert gpu.calls_of(lambda: torch.tensor([1.0], device="cuda"))[-2:] == ["sync cuda:0", "free 1"]
    assert torch.tensor([[1, 2]], device="cuda").tolist() == [[1, 2]]


def test_options_are_preserved(gpu):
    x = torch.tensor([1.0], device="cuda", dtype=torch.float16, requires_grad=True)
    assert (x.dtype, x.requires_grad) == (torch.float16, True)
    assert torch.tensor([1.0], pin_memory=True).is_pinned()
    assert torch.zeros(2, pin_memory=True).is_pinned()


def test_tensors_inside_lists_are_read_by_the_host(gpu):
    x = torch.ones(1, device="cuda")
    assert torch.tensor([x, 2.0]).tolist() == [1, 2]
    assert torch.as_tensor(x) is x
    assert torch.as_tensor(x, device="cpu").device.type == "cpu"


def test_a_cpu_tensor_can_be_created_like_a_gpu_tensor(gpu):
    x = torch.ones(2, 3, device="cuda", dtype=torch.float16)
    made = torch.zeros_like(x, device="cpu")
    assert (made.device.type, made.shape, made.dtype) == ("cpu", (2, 3), torch.float16)
    assert x.new_ones(2, device="cpu").dtype == torch.float16


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_created_on_the_given_device(gpu):
    sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device="cuda")
    assert sparse.is_cuda
    assert sparse.to_dense().tolist() == [1, 2, 0]


def test_a_generator_must_match_the_device_type(gpu):
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.rand(2, device="cuda", generator=torch.Generator())
    torch.rand(2, device="cuda", generator=torch.Generator("cuda"))


def test_patched_functions_are_still_known_to_torchscript(gpu):
    assert torch.jit._builtins._find_builtin(torch.zeros) == "aten::zeros"


@pytest.mark.parametrize("is_imported_before", [False, True])
@pytest.mark.parametrize("name", ["zeros_like", "empty_like", "full_like"])
def test_a_class_that_is_not_a_tensor_can_override_patched_functions(request, name, is_imported_before):
    handled = {}

    class Table:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return handled[func](*args, **(kwargs or {})) if func in handled else NotImplemented

    if is_imported_before:
        handled[getattr(torch, name)] = lambda table, *args: "of a table"
    request.getfixturevalue("gpu")
    if not is_imported_before:
        handled[getattr(torch, name)] = lambda table, *args: "of a table"
    assert getattr(torch, name)(Table(), *([2] if name == "full_like" else [])) == "of a table"


def test_a_subclass_can_override_creation_functions(gpu):
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, device="cuda").as_subclass(Named)
    made = torch.zeros_like(x, device="cpu"), x.new_ones(2)
    assert [type(one) for one in made] == [Named, Named]
    assert [one.device.type for one in made] == ["cpu", "cuda"]
    assert torch.zeros_like in seen
    assert torch.Tensor.new_ones in seen


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_strided_nested_tensors_are_created_and_moved(gpus):
    rows = [torch.ones(2, 4), torch.ones(3, 4)]
    made = {
        "named": torch.nested.nested_tensor(rows, device="cuda:1"),
        "moved": torch.nested.nested_tensor(rows).to("cuda:1"),
        "of its parts": torch.nested.nested_tensor([row.to("cuda:1") for row in rows]),
        "as they are": torch.nested.as_nested_tensor([row.to("cuda:1") for row in rows]),
    }
    assert {name: str(one.device) for name, one in made.items()} == dict.fromkeys(made, "cuda:1")
    for one in made.values():
        assert one.cpu().to_padded_tensor(0.0).sum() == 20
        assert (one * 2).to_padded_tensor(0.0).sum().item() == 40
    with torch.device("cuda:0"):
        assert torch.nested.nested_tensor([[1.0], [2.0, 3.0]], requires_grad=True).is_cuda


def test_a_function_mode_of_the_program_takes_precedence(gpu):
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            return made * 2 if func is torch.tensor else made

    with Doubling():
        assert torch.tensor([1]).tolist() == [2]
    with torch.device("cuda"), Doubling():
        assert torch.tensor([1]).is_cuda
    with Doubling(), torch.device("cuda"):
        assert torch.tensor([1]).is_cuda
        assert torch.tensor([1], device="cpu").is_cpu


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_empty_like_a_nested_gpu_tensor_can_be_on_the_host(gpu):
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda")
    made = torch.empty_like(rows, device="cpu")
    assert made.is_cpu
    assert made.copy_(rows).unbind()[1].tolist() == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_new_tensor_has_the_layout_of_the_old_one(gpu):
    sparse = torch.eye(2, device="cuda").to_sparse()
    assert sparse.new().is_sparse
    assert sparse.new(torch.Size([2, 3])).is_sparse
    assert sparse.new().is_cuda
    assert not torch.ones(2, device="cuda").new(3).is_sparse


def test_a_factory_accepts_a_device_and_an_output_on_it(gpus):
    out = torch.empty(3, device="cuda:1")
    assert torch.ones(3, device="cuda", out=out) is out
    assert (out.tolist(), out.device.index) == ([1, 1, 1], 1)
    with pytest.raises(RuntimeError, match="device type cpu does not match device type of out parameter \\(cuda\\)"):
        torch.ones(3, device="cpu", out=out)
    with pytest.raises(RuntimeError, match="device type cuda does not match device type of out parameter \\(cpu\\)"):
        torch.ones(3, device="cuda", out=torch.empty(3))


def test_legacy_constructors_with_sizes_only_allocate(gpu):
    x = torch.cuda.FloatTensor(2, 3)
    assert (x.shape, x.dtype, x.is_cuda) == ((2, 3), torch.float32, True)
    assert gpu.calls_of(lambda: torch.cuda.FloatTensor(2, 3))[:1] == ["allocate 2 on cuda:0"]
    assert not [call for call in gpu.calls_of(lambda: x.new(4)) if "launch" in call or "sync" in call]
    assert x.new(torch.Size([4])).shape == (4,)
    assert x.new([4, 5]).tolist() == [4, 5]


class Scaled(torch.Tensor):
    """A tensor that holds another one, and handles operators itself."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(func(args[0].held, *args[1:], **(kwargs or {})))


@pytest.mark.parametrize(
    ("name", "args"),
    [("new_empty", ((2,),)), ("new_zeros", ((2,),)), ("new_ones", ((2,),)), ("new_full", ((2,), 3.0))],
)
def test_a_class_that_handles_operators_makes_its_own_host_tensors(gpu, name, args):
    made = getattr(Scaled(torch.ones(2, device="cuda")), name)(*args, device="cpu")
    assert type(made) is Scaled
    assert (made.device.type, made.held.device.type) == ("cpu", "cpu")
    if name != "new_empty":
        assert made.held.tolist() == {"new_zeros": [0, 0], "new_ones": [1, 1], "new_full": [3, 3]}[name]
