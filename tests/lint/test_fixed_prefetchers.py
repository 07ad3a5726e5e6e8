"""`--fix` in prefetchers whose batches are containers: it names the tensors, not the container."""

import pytest

from syncheck.lint.fixes.repair import repair
from syncheck.rules.catalogue import CATALOGUE

CODES = frozenset(rule.code for rule in CATALOGUE)
PROGRAM = """
from dataclasses import dataclass
import torch

@dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor

side = torch.cuda.Stream()
host = [(torch.randn(8, 8).pin_memory(), torch.randn(8, 8).pin_memory()) for _ in range(5)]

class Loader:
    def __init__(self):
        self.it = iter(host)
        self.preload()

    def preload(self):
        pair = next(self.it, None)
        if pair is None:
            self.batch = None
            return
        with torch.cuda.stream(side):
            self.batch = {made}

    def next(self):
        torch.cuda.current_stream().wait_stream(side)
        batch = self.batch
        self.preload()
        return batch

total = torch.zeros((), device="cuda")
loader = Loader()
batch = loader.next()
while batch is not None:
    {used}
    batch = loader.next()
print(total.item())
"""
X, Y = "pair[0].cuda(non_blocking=True)", "pair[1].cuda(non_blocking=True)"
SHAPES = {
    "tuple": (f"({X}, {Y})", "batch[0]", "batch[1]"),
    "list comprehension": ("[t.cuda(non_blocking=True) for t in pair]", "batch[0]", "batch[1]"),
    "generator": ("tuple(t.cuda(non_blocking=True) for t in pair)", "batch[0]", "batch[1]"),
    "dictionary": (f"{{'x': {X}, 'y': {Y}}}", "batch['x']", "batch['y']"),
    "zipped": ("{k: t.cuda(non_blocking=True) for k, t in zip('xy', pair)}", "batch['x']", "batch['y']"),
    "dataclass": (f"Batch({X}, {Y})", "batch.x", "batch.y"),
    "nested": (f"{{'in': [{X}, {Y}]}}", "batch['in'][0]", "batch['in'][1]"),
}


def fixed(made, used):
    """Return the lines that `--fix` adds."""
    source = PROGRAM.replace("{made}", made).replace("{used}", used)
    result = repair("train.py", source, unsafe=False, codes=CODES)
    before = source.splitlines()
    return sorted(line.strip() for line in result.source.splitlines() if line not in before)


@pytest.mark.parametrize(("made", "first", "second"), SHAPES.values(), ids=SHAPES)
def test_each_tensor_of_a_batch_is_recorded(made, first, second):
    lines = fixed(made, f"total += {first}.sum() + {second}.mean()")
    assert lines == [f"{name}.record_stream(torch.cuda.current_stream())" for name in sorted((first, second))]


@pytest.mark.parametrize(("made", "first", "second"), SHAPES.values(), ids=SHAPES)
def test_tensors_used_on_several_lines_are_each_recorded(made, first, second):
    lines = fixed(made, f"total += {first}.sum()\n    total += {second}.mean()")
    assert lines == [f"{name}.record_stream(torch.cuda.current_stream())" for name in sorted((first, second))]


def test_the_variable_of_a_loop_over_the_batch_is_recorded():
    lines = fixed(f"[{X}, {Y}]", "for t in batch:\n        total += t.sum()")
    assert lines == ["t.record_stream(torch.cuda.current_stream())"]


@pytest.mark.parametrize("used", ["total += torch.add(*batch).sum()", "total += torch.stack(batch).sum()"])
def test_a_batch_that_is_used_as_a_whole_is_not_changed(used):
    assert fixed(f"({X}, {Y})", used) == []


LOADER = """
import queue
import threading
import torch

batches = queue.Queue(maxsize=2)

def produce():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(5):
            batch = torch.full((64, 8), float(i)).pin_memory()
            {load}
    batches.put(None)

thread = threading.Thread(target=produce)
thread.start()
w = torch.ones(8, 8, device="cuda")
total = 0.0
while (batch := batches.get()) is not None:
    total += (batch @ w).sum().item()
thread.join()
"""
WAIT = "torch.cuda.default_stream().wait_stream(stream)"


@pytest.mark.parametrize(
    ("load", "added"),
    [
        ("batches.put(batch.to('cuda', non_blocking=True))", []),
        ("x = batch.to('cuda', non_blocking=True)\n            batches.put(x)", [WAIT]),
    ],
)
def test_no_wait_is_added_after_a_batch_was_given_to_another_thread(load, added):
    source = LOADER.replace("{load}", load)
    result = repair("train.py", source, unsafe=True, codes=CODES)
    lines = result.source.splitlines()
    assert [line.strip() for line in lines if line not in source.splitlines()] == added
    assert not added or lines.index(f"            {WAIT}") < lines.index("            batches.put(x)")
