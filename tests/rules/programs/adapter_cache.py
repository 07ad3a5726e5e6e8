"""Adapters are loaded on a stream of their own, and the oldest goes while its last user may still read it."""

import torch

loading = torch.cuda.Stream()
stored = {name: (torch.rand(32, 4).pin_memory(), torch.rand(4, 32).pin_memory()) for name in "abc"}
loaded = {}


def adapter(name):
    if name not in loaded:
        if len(loaded) == 2:
            del loaded[next(iter(loaded))]
        with torch.cuda.stream(loading):
            loaded[name] = tuple(half.to("cuda", non_blocking=True) for half in stored[name])
        torch.cuda.current_stream().wait_stream(loading)
    return loaded[name]


x = torch.ones(1, 32, device="cuda")
for name in "abacbcaab":
    down, up = adapter(name)
    x = torch.tanh(x @ down @ up)  # expect-run: SYN201
    del down, up
print(x.sum().item())
