"""Generator and discriminator step on streams of a dataclass; the discriminator reads what the generator writes."""

from dataclasses import dataclass, field

import torch


@dataclass
class Streams:
    generator: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)
    discriminator: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)


streams = Streams()
noise = torch.rand(8, 16, device="cuda")
weights = torch.rand(16, 16, device="cuda")
scores = torch.empty(8, device="cuda")
for stream in (streams.generator, streams.discriminator):
    stream.wait_stream(torch.cuda.current_stream())


def step():
    with torch.cuda.stream(streams.generator):
        fake = (noise @ weights).tanh()
        fake.record_stream(streams.discriminator)
    with torch.cuda.stream(streams.discriminator):
        torch.sum(fake, dim=1, out=scores)  # expect-run: SYN101
    torch.cuda.current_stream().wait_stream(streams.discriminator)
    return scores.mean().item()


print(step())
