"""A closure scales on a side stream; the caller reads at once."""

import torch


def make_scaler(stream, factor):
    def scale(values):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            values.mul_(factor)
        return values

    return scale


scale = make_scaler(torch.cuda.Stream(), 3.0)
values = torch.rand(128, device="cuda")
scale(values)
print((values + 1).sum().item())  # expect-run: SYN101
