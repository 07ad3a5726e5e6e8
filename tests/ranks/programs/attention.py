"""Attention of sequences that two ranks share (context parallelism) has the results of attention on one rank."""

import warnings

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard, set_rotate_method
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

warnings.simplefilter("ignore")
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
torch.manual_seed(0)
inputs = [torch.randn(2, 2, 16, 8, device="cuda") for _ in range(3)]
leaves = [x.clone().requires_grad_() for x in inputs]
expected = functional.scaled_dot_product_attention(*leaves, is_causal=True)
expected.square().sum().backward()

for method in ("alltoall", "allgather"):
    set_rotate_method(method)
    parts = [x.clone() for x in inputs]
    with (
        context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]),
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    ):
        for part in parts:
            part.requires_grad_()
        functional.scaled_dot_product_attention(*parts, is_causal=True).square().sum().backward()
        for part in parts:
            part.requires_grad_(False)
    gradients = context_parallel_unshard(mesh, [part.grad for part in parts], [2, 2, 2])
    for gradient, leaf in zip(gradients, leaves, strict=True):
        assert torch.allclose(gradient, leaf.grad, atol=1e-4)

heads = [distribute_tensor(x, mesh, [Shard(1)]).requires_grad_() for x in inputs]
result = functional.scaled_dot_product_attention(*heads, is_causal=True)
assert torch.allclose(result.full_tensor(), expected, atol=1e-5)
result.square().sum().backward()
assert torch.allclose(heads[0].grad.full_tensor(), leaves[0].grad, atol=1e-4)
dist.destroy_process_group()
