"""Mixed devices raise torch's errors; other mistakes too."""

import torch
from torch import nn


def message(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


a, b, c = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1"), torch.ones(2)
for call in (lambda: a + b, lambda: a + c, lambda: c + a, lambda: torch.cat([a, b]), lambda: a @ b, lambda: a.add_(c)):
    text = message(call)
    assert "Expected all tensors to be on the same device" in text, text
assert "cuda:0" in message(lambda: a + b)
assert "cuda:1" in message(lambda: a + b)
assert "cpu" in message(lambda: a + c)
text = message(lambda: nn.Linear(2, 2).cuda(1)(c))
assert "Expected all tensors to be on the same device" in text
assert "cpu" in text
assert "cuda:1" in text
message(lambda: nn.Linear(2, 2)(a))
message(lambda: nn.functional.cross_entropy(torch.ones(2, 2, device="cuda"), torch.zeros(2, dtype=torch.long)))
message(lambda: nn.Embedding(3, 3).cuda()(torch.tensor([1])))
message(lambda: torch.where(torch.ones(2, device="cuda") > 0, b, a))
message(lambda: a.index_select(0, torch.tensor([0], device="cuda:1")))
message(lambda: torch.stack([a, c]))
message(lambda: a[torch.tensor([0], device="cuda:1")])
message(lambda: nn.Conv2d(1, 1, 1).cuda()(torch.ones(1, 1, 2, 2)))
message(lambda: torch.add(a, a, out=torch.empty(2)))
message(a.pin_memory)
message(lambda: torch.randn(2, device="cuda", generator=torch.Generator()))
message(lambda: c.record_stream(torch.cuda.current_stream()), (RuntimeError, NotImplementedError))
message(a.backward)
assert (a + torch.tensor(1.0)).tolist() == [2, 2]
assert (a.to(b.device) + b).device.index == 1
