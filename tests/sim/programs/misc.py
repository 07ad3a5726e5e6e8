"""Clocks, subclasses, distributions, scripted modules, garbage."""

import gc
import time
import warnings
import weakref

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.cuda.synchronize()
began = time.perf_counter()
x = torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
torch.cuda.synchronize()
assert time.perf_counter() - began > 0
assert isinstance(time.time(), float)
assert isinstance(time.time_ns(), int)


class Tagged(torch.Tensor):
    pass


tagged = torch.ones(3).as_subclass(Tagged)
moved = tagged.cuda()
assert isinstance(moved, Tagged)
assert isinstance(moved + 1, Tagged)
assert moved.device == torch.device("cuda:0")
assert isinstance(tagged.to("cuda:1"), Tagged)

normal = torch.distributions.Normal(torch.zeros(3, device="cuda:1"), torch.ones(3, device="cuda:1"))
assert normal.sample((4,)).device.index == 1
assert normal.log_prob(torch.zeros(3, device="cuda:1")).device.index == 1
assert torch.distributions.Categorical(logits=torch.zeros(4, device="cuda:2")).sample().device.index == 2
normal.rsample().sum()

gone = weakref.ref(torch.ones(3, device="cuda"))
gc.collect()
assert gone() is None
before = torch.cuda.memory_allocated("cuda:2")
cycle = {"t": torch.ones(1024, device="cuda:2")}
cycle["self"] = cycle
del cycle
gc.collect()
assert torch.cuda.memory_allocated("cuda:2") == before
view = torch.ones(1024, device="cuda:2")[10:20]
assert torch.cuda.memory_allocated("cuda:2") >= before + 4096
assert view.sum().item() == 10


@torch.jit.script
def scripted(a: torch.Tensor, b: torch.Tensor):
    return torch.relu(a) + b


assert scripted(torch.ones(2, device="cuda"), torch.ones(2, device="cuda")).tolist() == [2, 2]
model = torch.jit.trace(nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda"))
assert model(torch.ones(1, 2, device="cuda")).is_cuda
with_numbers = torch.jit.trace(lambda x: x * 2 + 1.5, torch.ones(1, 2, device="cuda"))  # constants are compared
assert with_numbers(torch.ones(1, 2, device="cuda")).tolist() == [[3.5, 3.5]]

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert device.type == "cuda"
assert device.index is None
assert torch.device(3).index == 3
assert torch.device(3).type == "cuda"
assert isinstance(torch.device(3), torch.device)
assert torch.device("cuda", 1) == torch.device("cuda:1")
y = torch.ones(2, device=device)
assert y.device == torch.device("cuda:0")
assert y.device != torch.device("cpu")
assert {y.device: 1}[torch.device("cuda:0")] == 1
assert y.dtype.is_floating_point
assert y.requires_grad is False
assert torch.result_type(y, 1) == torch.float32
assert torch.can_cast(torch.float, torch.double)
nan = torch.tensor([float("nan"), 1.0], device="cuda")
assert nan.isnan().any()
assert torch.isfinite(nan).sum() == 1
if (nan > 0).any():
    nan.nan_to_num_()
assert nan.tolist() == [0, 1]
stack = torch.utils.data.default_collate([torch.ones(2), torch.zeros(2)]).cuda()
assert stack.is_cuda
assert torch.backends.cudnn.is_available() in {True, False}
