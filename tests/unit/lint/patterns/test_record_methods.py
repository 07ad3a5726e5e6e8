"""Methods `record_stream` that leave out a tensor of their batch."""

import pytest

from syncheck.lint.patterns import record_methods
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

BATCH = """
from dataclasses import dataclass
@dataclass
class Block:
    edges: Tensor
    def record_stream(self, stream):
        self.edges.record_stream(stream)
@dataclass
class Batch:
    images: torch.Tensor
    weights: {kind}
    {mover}
    def record_stream(self, stream):
        {record}
"""
PARTS = {
    "kind": "Optional[torch.Tensor]",
    "mover": "def to(self, d): return Batch(self.images.to(d), self.weights.to(d))",
    "record": "self.images.record_stream(stream)",
}


def found(**parts):
    source = BATCH.format(**(PARTS | parts))
    assert record_methods.can_matter(source)
    file = SourceFile("file.py", source)
    return [(f.rule.code, f.location.frame.line) for f in record_methods.findings(context_of(file))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"record": "for x in (self.images,): x.record_stream(stream)"},
        {"mover": "def to(self, d):\n        w = self.weights\n        return Batch(self.images.to(d), w.to(d))"},
        {"mover": "def apply(self, fn): return Batch(fn(self.images), fn(self.weights))"},
        {"record": "self.values.record_stream(stream)"},  # a field, not the method of a dictionary
        {
            "kind": "list[Block]",
            "mover": "def to(self, d): return Batch(self.images.to(d), [b.to(d) for b in self.weights])",
        },
        {
            "kind": "dict[str, torch.Tensor]",
            "mover": "def to(self, d): return Batch(self.images.to(d), {k: v.to(d) for k, v in self.weights.items()})",
        },
    ],
)  # fmt: skip
def test_a_moved_tensor_that_is_not_recorded_is_reported(parts):
    ((code, line),) = found(**parts)
    assert code == "SYN201"
    assert BATCH.format(**(PARTS | parts)).splitlines()[line - 1].strip() == (parts.get("record") or PARTS["record"])


@pytest.mark.parametrize(
    "parts",
    [
        {"record": "self.images.record_stream(stream); self.weights.record_stream(stream)"},
        {"record": "for x in (self.images, self.weights): x.record_stream(stream)"},
        {"record": "for x in vars(self).values(): x.record_stream(stream)"},
        {"record": "for x in self.tensors(): x.record_stream(stream)"},
        {"record": "pass"},
        {"kind": "int"},
        {"kind": "np.ndarray"},
        {"mover": "def to(self, d): return Batch(self.images.to(d), self.weights)"},  # it stays on the host
        {"mover": "def to(self, d): return Batch(self.images.to(d), len(self.weights))"},
        {"mover": "def describe(self, d): return self.weights.to(d)"},
        {"mover": "pass"},
    ],
)
def test_a_batch_that_records_all_that_it_moves_is_not_reported(parts):
    assert found(**parts) == []
