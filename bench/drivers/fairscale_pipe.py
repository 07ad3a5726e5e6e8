"""fairscale: a pipeline over two GPUs, with skip connections, and a checkpointed one.

repository: facebookresearch/fairscale
devices: 2
files: fairscale/nn/pipe/stream.py fairscale/nn/pipe/copy.py fairscale/nn/pipe/pipeline.py
"""

import torch
from fairscale.nn import Pipe
from fairscale.nn.pipe.copy import Copy, Wait
from fairscale.nn.pipe.skip import pop, skippable, stash
from fairscale.nn.pipe.stream import CPUStream, new_stream
from torch import nn


@skippable(stash=["early"])
class Keep(nn.Module):
    def forward(self, x):
        yield stash("early", x)
        return x * 2


@skippable(pop=["early"])
class Add(nn.Module):
    def forward(self, x):
        early = yield pop("early")
        return x + early


def pipeline(checkpoint, devices=(0, 1)):
    torch.manual_seed(0)
    layers = [Keep(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), Add(), nn.Linear(64, 8)]
    return Pipe(nn.Sequential(*layers), balance=[3, 3], devices=devices, chunks=4, checkpoint=checkpoint)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, gradients = [], []
    batches = [torch.randn(32, 64).to(model.devices[0]).requires_grad_() for _ in range(2)]  # it waits for the GPU
    for data in batches:
        losses.append(model(data).square().mean())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
        gradients.append(data.grad)
    print([loss.item() for loss in losses], [gradient.sum().item() for gradient in gradients])
    print([parameter.sum().item() for parameter in model.parameters()])


@torch.no_grad()
def infer(model):
    batches = [torch.randn(32, 64).to(model.devices[0]) for _ in range(3)]
    results = [model(data) for data in batches]
    print([result.sum().item() for result in results])


def to_host():
    stream = new_stream(torch.device("cuda"))
    x = torch.ones(100, device="cuda", requires_grad=True)
    stream.wait_stream(torch.cuda.current_stream())
    (copied,) = Copy.apply(stream, CPUStream, x)
    (waited,) = Wait.apply(stream, CPUStream, copied)
    waited.square().sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    print(waited.sum().item(), x.grad.sum().item())


for checkpoint in ("never", "except_last", "always"):
    train(pipeline(checkpoint))
infer(pipeline("never").eval())
to_host()
