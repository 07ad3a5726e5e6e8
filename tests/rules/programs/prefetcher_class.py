"""The stream has no name where the batch is used, but where the prefetcher hands it over."""

import torch


class Prefetcher:
    def __init__(self, batches):
        self.stream = torch.cuda.Stream()
        self.batches = iter(batches)
        self.preload()

    def preload(self):
        batch = next(self.batches, None)
        with torch.cuda.stream(self.stream):
            self.following = batch.cuda(non_blocking=True) if batch is not None else None

    def next(self):
        batch = self.following
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())
            self.preload()
        return batch


def batches():
    prefetcher = Prefetcher(torch.full((256,), float(number)).pin_memory() for number in range(4))
    return prefetcher.next


total = torch.zeros((), device="cuda")
fetch = batches()
while (batch := fetch()) is not None:
    total += batch.sum()  # expect-run: SYN101
print(total.item())
