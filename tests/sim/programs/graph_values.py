"""Replays of CUDA graphs compute what the operators would."""

import gc

import torch


def warm_up(function):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(side)


def captured(function):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = function()
    return graph, made


# numbers of the host are captured with their values
x = torch.arange(8.0, device="cuda")
mask = x > 3


def numbers():
    part = x.clone()
    part[:1] = 3.0
    product = torch.add(x * torch.tensor(3.0), torch.tensor(2.0), alpha=2)
    return torch.where(mask, 7.0, x), product, part, x.masked_fill(mask, 9.0), torch.pow(2.0, x)


expected = [tensor.cpu() for tensor in numbers()]
graph, made = captured(numbers)
gc.collect()
others = [torch.full((), -1.0) for _ in range(100)]  # where the numbers may have been
graph.replay()
for tensor, value in zip(made, expected, strict=True):
    assert torch.equal(tensor.cpu(), value), (tensor, value)


# optimizers
def train(name, *, is_graphed):
    parameters = [torch.nn.Parameter(torch.linspace(-1, 1, 4, device="cuda")) for _ in range(2)]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.1, capturable=True)
    for index, parameter in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, 0.5 + index)
    warm_up(optimizer.step)
    step = captured(optimizer.step)[0].replay if is_graphed else optimizer.step
    for _ in range(3):
        step()
    return [parameter.detach().cpu() for parameter in parameters]


for name in ("Adam", "RAdam", "Rprop", "NAdam"):
    graphed, plain = train(name, is_graphed=True), train(name, is_graphed=False)
    assert all(torch.allclose(a, b) for a, b in zip(graphed, plain, strict=True)), (name, graphed, plain)


# random numbers
def draw():
    ones = torch.ones(8, device="cuda")
    return torch.rand(4, device="cuda"), torch.nn.functional.dropout(ones), torch.empty(3, device="cuda").normal_()


torch.cuda.manual_seed(5)
before, on_host = torch.cuda.get_rng_state(), torch.get_rng_state()
graph, made = captured(draw)
assert torch.equal(before, torch.cuda.get_rng_state())  # a capture draws nothing
graph.replay()
first = [tensor.cpu() for tensor in made]
graph.replay()
assert not torch.equal(first[0], made[0].cpu())
assert torch.equal(on_host, torch.get_rng_state())
torch.cuda.manual_seed(5)
assert all(torch.equal(a, b.cpu()) for a, b in zip(first, draw(), strict=True))
torch.cuda.manual_seed(5)
graph.replay()
assert all(torch.equal(a, b.cpu()) for a, b in zip(first, made, strict=True))

generator = torch.Generator("cuda").manual_seed(3)
graph = torch.cuda.CUDAGraph()
graph.register_generator_state(generator)
with torch.cuda.graph(graph):
    drawn = torch.rand(4, device="cuda", generator=generator)
graph.replay()
first = drawn.cpu()
graph.replay()
assert not torch.equal(first, drawn.cpu())
generator.manual_seed(3)
graph.replay()
assert torch.equal(first, drawn.cpu())
refused = ""
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.rand(4, device="cuda", generator=generator)
except RuntimeError as error:
    refused = str(error)
assert "not in capture mode" in refused

# recurrent layers, with gradients
for kind in (torch.nn.LSTM, torch.nn.GRU):
    layer = kind(4, 5, batch_first=True).cuda()
    batch = torch.randn(2, 3, 4, device="cuda", requires_grad=True)

    def step(layer=layer, batch=batch):
        layer.zero_grad(set_to_none=False)
        out = layer(batch)[0]
        out.sum().backward()
        return out

    warm_up(step)
    value, gradient = step().detach().cpu(), layer.weight_ih_l0.grad.cpu()
    graph, out = captured(step)
    layer.weight_ih_l0.grad.zero_()
    graph.replay()
    assert torch.allclose(out.detach().cpu(), value)
    assert torch.allclose(layer.weight_ih_l0.grad.cpu(), gradient)
