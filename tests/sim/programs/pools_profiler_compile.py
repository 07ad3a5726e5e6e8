"""Memory pools, the profiler, torch.compile, NVTX and other helpers."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    inside = torch.ones(4, device="cuda")
outside = inside + 1
assert outside.sum().item() == 8
assert pool.id is not None

model = nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=both, record_shapes=True, profile_memory=True) as run, record_function("forward"):
    model(x)
assert len(run.key_averages()) > 0
run.key_averages().table(sort_by="self_cuda_time_total", row_limit=3)
turns = schedule(wait=1, warmup=1, active=1)
with profile(activities=[ProfilerActivity.CUDA], schedule=turns, on_trace_ready=print) as run:
    for _ in range(3):
        model(x)
        run.step()
with torch.autograd.profiler.profile(use_device="cuda") as old:
    model(x)
assert old.key_averages() is not None
with torch.autograd.profiler.emit_nvtx(enabled=False):
    model(x)

compiled = torch.compile(model)
assert torch.equal(compiled(x), model(x))


@torch.compile(mode="reduce-overhead", fullgraph=True)
def double(a):
    return a * 2


assert torch.equal(double(x), x + x)


@torch.compile
def triple(a):
    return a * 3


assert torch.equal(triple(x), x * 3)
in_place = nn.Linear(4, 4).cuda()
in_place.compile()
assert in_place(x).is_cuda
torch.compiler.reset()
assert not torch.compiler.is_compiling()

torch.cuda.nvtx.range_push("a")
torch.cuda.nvtx.mark("here")
torch.cuda.nvtx.range_pop()
with torch.cuda.nvtx.range("b"):
    model(x)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.set_float32_matmul_precision("high")
torch.backends.cuda.enable_flash_sdp(True)
assert torch.cuda.is_bf16_supported()
assert torch.version.cuda
with torch.backends.cudnn.flags(enabled=False):
    nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2, device="cuda"))
torch.use_deterministic_algorithms(True, warn_only=True)
model(x)
torch.use_deterministic_algorithms(False)
torch.cuda.set_sync_debug_mode("default")
assert torch.cuda.get_sync_debug_mode() == 0
