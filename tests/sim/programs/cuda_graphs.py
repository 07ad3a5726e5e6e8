"""CUDA graphs: capture, replay, whole-network capture with an optimizer, graphed callables."""

import torch
from torch import nn

static = torch.zeros(4, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        out = static * 2 + 1
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    assert torch.cuda.is_current_stream_capturing()
    out = static * 2
    out += 1
for value in (1.0, 5.0):
    static.fill_(value)
    graph.replay()
    assert out.tolist() == [2 * value + 1] * 4, out
assert isinstance(graph.pool(), tuple)


def make(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)).cuda()


def batches():
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(8, 6, generator=generator), torch.randn(8, 2, generator=generator)) for _ in range(5)]


def eager(make_optimizer):
    model = make()
    optimizer = make_optimizer(model)
    for x, y in batches()[:1] * 3 + batches():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def captured(make_optimizer):
    model = make()
    optimizer = make_optimizer(model)
    static_x, static_y = torch.empty(8, 6, device="cuda"), torch.empty(8, 2, device="cuda")
    static_x.copy_(batches()[0][0])
    static_y.copy_(batches()[0][1])
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.mse_loss(model(static_x), static_y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(warm)
    whole = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(whole):
        loss = nn.functional.mse_loss(model(static_x), static_y)
        loss.backward()
        optimizer.step()
    losses = []
    for x, y in batches():
        static_x.copy_(x)
        static_y.copy_(y)
        whole.replay()
        losses.append(loss.item())
    assert len(set(losses)) == len(losses)
    return [p.detach().cpu() for p in model.parameters()]


for make_optimizer in (
    lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
    lambda m: torch.optim.Adam(m.parameters(), capturable=True, lr=0.01),
    lambda m: torch.optim.AdamW(m.parameters(), fused=True, capturable=True, lr=0.01),
):
    for one, other in zip(captured(make_optimizer), eager(make_optimizer), strict=True):
        assert torch.allclose(one, other, atol=1e-6), (one, other)

# partial capture
torch.manual_seed(0)
first, last = nn.Linear(4, 4).cuda(), nn.Linear(4, 1).cuda()
sample = torch.randn(3, 4, device="cuda", requires_grad=True)
wanted = nn.Linear(4, 4).cuda()
wanted.load_state_dict(first.state_dict())
graphed = torch.cuda.make_graphed_callables(first, (sample,))
x = torch.randn(3, 4, device="cuda")
y = last(graphed(x)).sum()
y.backward()
z = last(wanted(x)).sum()
z.backward()
assert torch.allclose(y, z)
assert torch.allclose(first.weight.grad, wanted.weight.grad, atol=1e-6)

# two graphs, one pool, explicit begin and end
pool = torch.cuda.graph_pool_handle()
one, two = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
base = torch.ones(3, device="cuda")
capture_stream = torch.cuda.Stream()
capture_stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(capture_stream):
    middle = base + 1
    end = middle * 3
    one.capture_begin(pool=pool)
    middle = base + 1
    one.capture_end()
    two.capture_begin(pool=one.pool())
    end = middle * 3
    two.capture_end()
torch.cuda.current_stream().wait_stream(capture_stream)
base.fill_(4)
one.replay()
two.replay()
assert end.tolist() == [15.0] * 3
one.reset()

# random numbers differ from replay to replay
noise_graph = torch.cuda.CUDAGraph()
torch.nn.functional.dropout(static, 0.5)
with torch.cuda.graph(noise_graph, pool=pool):
    noise = torch.rand(64, device="cuda")
noise_graph.replay()
a = noise.clone()
noise_graph.replay()
assert not torch.equal(a, noise)

# a fork inside the capture, joined before its end
forked = torch.cuda.CUDAGraph()
branch = torch.cuda.Stream()
with torch.cuda.graph(forked):
    left = static + 1
    branch.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(branch):
        right = static + 2
    torch.cuda.current_stream().wait_stream(branch)
    both = left + right
static.fill_(10)
forked.replay()
assert both.tolist() == [23.0] * 4

# the generic interface
if hasattr(torch.accelerator, "Graph"):
    generic = torch.accelerator.Graph()
    with torch.Stream(device="cuda"), generic:
        last = static * 7
    torch.accelerator.synchronize()
    static.fill_(2)
    generic.replay()
    assert last.tolist() == [14.0] * 4
