"""Random numbers: every device has its own state."""

import random

import torch


def draw(device, n=4):
    return torch.rand(n, device=device)


torch.manual_seed(5)
first = [draw(f"cuda:{i}").cpu() for i in range(4)]
torch.manual_seed(5)
again = [draw(f"cuda:{i}").cpu() for i in range(4)]
assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))

torch.cuda.manual_seed(7)
a = draw("cuda:0").cpu()
torch.cuda.manual_seed(7)
assert torch.equal(a, draw("cuda:0").cpu())
with torch.cuda.device(2):
    torch.cuda.manual_seed(7)
    assert torch.equal(a, draw("cuda").cpu())
torch.cuda.manual_seed_all(7)
assert all(torch.equal(a, draw(f"cuda:{i}").cpu()) for i in range(4))
assert torch.cuda.initial_seed() == 7

# the CPU's numbers do not depend on the GPUs'
torch.manual_seed(1)
cpu = torch.rand(3)
torch.manual_seed(1)
draw("cuda:1")
torch.nn.functional.dropout(torch.ones(4, device="cuda"), 0.5)
assert torch.equal(cpu, torch.rand(3))

state = torch.cuda.get_rng_state("cuda:1")
assert state.dtype == torch.uint8
assert state.device.type == "cpu"
b = draw("cuda:1").cpu()
torch.cuda.set_rng_state(state, "cuda:1")
assert torch.equal(b, draw("cuda:1").cpu())
states = torch.cuda.get_rng_state_all()
assert len(states) == 4
c = [draw(i).cpu() for i in ("cuda:0", "cuda:3")]
torch.cuda.set_rng_state_all(states)
assert all(torch.equal(x, draw(i).cpu()) for x, i in zip(c, ("cuda:0", "cuda:3"), strict=True))

with torch.random.fork_rng(devices=[0, 1]):
    inside = draw("cuda:1").cpu()
assert torch.equal(inside, draw("cuda:1").cpu())
with torch.random.fork_rng():
    inside = torch.rand(2), draw("cuda:0").cpu()
assert torch.equal(inside[0], torch.rand(2))
assert torch.equal(inside[1], draw("cuda:0").cpu())

generator = torch.Generator(device="cuda:2")
generator.manual_seed(11)
assert generator.device == torch.device("cuda:2")
assert isinstance(generator, torch.Generator)
d = torch.randn(3, device="cuda:2", generator=generator).cpu()
saved = generator.get_state()
e = torch.randperm(5, device="cuda:2", generator=generator).cpu()
generator.set_state(saved)
assert torch.equal(e, torch.randperm(5, device="cuda:2", generator=generator).cpu())
assert torch.equal(d, torch.randn(3, device="cuda:2", generator=torch.Generator("cuda:2").manual_seed(11)).cpu())
x = torch.empty(3, device="cuda:2").normal_(generator=generator)
assert x.is_cuda
assert generator.initial_seed() == 11
torch.multinomial(torch.ones(4, device="cuda:2"), 2, generator=generator)
torch.bernoulli(torch.full((4,), 0.5, device="cuda:2"), generator=generator)
assert torch.cuda.default_generators[1].device == torch.device("cuda:1")
copied = generator.clone_state()
assert torch.equal(copied.get_state(), generator.get_state())

for make in (torch.randn, torch.rand):
    assert make(2, 3, device="cuda:3", dtype=torch.float64).device.index == 3
assert torch.randint(0, 5, (3,), device="cuda").is_cuda
assert torch.randint_like(torch.zeros(3, device="cuda:1"), 9).device.index == 1
torch.seed()
torch.cuda.seed()
torch.cuda.seed_all()
torch.random.manual_seed(3)
random.seed(0)
assert isinstance(torch.random.initial_seed(), int)
