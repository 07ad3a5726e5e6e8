"""A hook makes another stream current in the backward pass: what is made afterwards is the caller's."""

import torch

side = torch.cuda.Stream()
w = torch.ones(4, device="cuda", requires_grad=True)
with torch.cuda.stream(side):
    side.wait_stream(torch.cuda.default_stream())
    h = w * 2


def hook(g):
    with torch.cuda.stream(torch.cuda.Stream()):
        pass


h.register_hook(hook)
torch.cuda.default_stream().wait_stream(side)
h.sum().backward()
streams = []
z = w * 3
z.register_hook(lambda g: streams.append(torch.cuda.current_stream()))
z.sum().backward()
assert streams == [torch.cuda.default_stream()], streams
