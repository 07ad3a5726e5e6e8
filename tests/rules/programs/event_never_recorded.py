"""The consumer waits for the event of another slot than the one that was recorded."""
import torch


class Handoff:
    def __init__(self):
        self.producer = torch.cuda.Stream()
        self.written = torch.cuda.Event()
        self.data = None

    def produce(self, size):
        with torch.cuda.stream(self.producer):
            self.data = torch.rand(size, device="cuda")

    def consume(self):
        torch.cuda.current_stream().wait_event(self.written)  # expect-run: SYN401
        self.data.record_stream(torch.cuda.current_stream())
        return self.data.sum()


handoff = Handoff()
handoff.produce(512)
print(handoff.consume().item())
