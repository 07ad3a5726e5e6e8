"""Analyzes a recorded run of a seed as `syncheck overlap` does."""

from pathlib import Path

from syncheck.commands.overlap import recorded
from syncheck.config.options import Options
from syncheck.overlap import wording
from syncheck.overlap.analysis import analyze

SEEDS = Path(__file__).parents[2] / "fixtures" / "seeds"
PRODUCT = frozenset({"aten::mul"})
COPY = frozenset({"aten::copy_", "aten::_to_copy"})


class Answer:
    """The analysis that `syncheck overlap` makes of a run of a seed."""

    def __init__(self, trace):
        recorder, self.sites, *_ = recorded([trace], Options())
        self.graph = recorder.graph()
        self.analysis = analyze(self.graph)
        self.words = wording.report(self.analysis, recorder.names, self.sites, "")

    def ran(self, operators):
        """Return the (start, end) times of the operations with some names."""
        schedule = self.analysis.schedule
        found = [op for op, operation in enumerate(self.graph.ops) if operation.operator in operators]
        return [(schedule.starts[op], schedule.ends[op]) for op in found]

    def overlap(self, first, second):
        """Return the total time during which operations of two kinds run concurrently."""
        return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in self.ran(first) for b in self.ran(second))

    def edge(self, kind):
        return next(line for line in self.words.edges if line.kind == kind)
