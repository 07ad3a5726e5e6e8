"""Classes as a whole: work that one method leaves for another."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text


def found(source):
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [(f.rule.code, f.level, f.location.frame.line) for f in result.findings]


TRACER = """
    import torch

    class Tracer:
        def __init__(self, path, most):
            self.path, self.most = path, most
            self.records = []
            self.stopped = False

        def advance(self, step):
            self.step = step
            if self.step >= self.most:
                self.stopped = True

        def record(self, indices, layer):
            if self.stopped:
                return
            self.records.append(self._entry(indices.to("cpu", torch.int32, non_blocking=True), layer))

        def _entry(self, tensor, layer):
            entry = {{"layer": layer, "count": int(tensor.shape[0]), "tensor": tensor}}
            return entry

        def write(self, file):
            {}
            if not self.records:
                return
            for entry in self.records:
                file.write(entry.pop("tensor").tolist())
            self.records.clear()
"""


def test_a_method_reading_what_another_may_still_be_copying_is_reported():
    assert found(TRACER.format("pass")) == [("SYN301", "warning", 29)]


def test_a_method_that_waits_for_copies_of_another_method_is_correct():
    assert not found(TRACER.format("torch.cuda.synchronize()"))


PREFETCH = """
    import torch

    class Prefetch:
        def __init__(self):
            self.stream = torch.cuda.Stream()
            self.batch = None

        def start(self, host):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.batch = host.cuda(non_blocking=True)

        def use(self):
            {}
            return self.batch * 2

        def {}(self):
            torch.cuda.current_stream().wait_stream(self.stream)
"""


def test_using_a_result_without_a_wait_is_reported():
    source = PREFETCH.format("pass", "other").replace("current_stream().wait_stream(self.stream)", "current_stream()")
    assert ("SYN101", "warning", 16) in found(source)


@pytest.mark.parametrize(
    ("first", "name"), [("torch.cuda.current_stream().wait_stream(self.stream)", "other"), ("pass", "wait")]
)
def test_a_class_may_leave_waiting_to_its_caller(first, name):
    assert not found(PREFETCH.format(first, name))


def test_a_class_that_waits_when_its_with_block_ends_is_correct():
    source = PREFETCH.format("pass", "other").replace("def other(self):", "def __exit__(self, *error):")
    assert not found(source)


def test_calls_in_the_file_determine_the_order_of_methods():
    source = (
        TRACER.format("pass")
        + """
    tracer = Tracer("here", 3)
    tracer.record(torch.ones(4, device="cuda"), 0)
    torch.cuda.synchronize()
    tracer.write(open("x", "w"))
    """
    )
    assert not found(source)


DROPPED = """
import torch

class Pending:
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.pending = None

    def {name}(self):
        self.pending = None

    def start(self, n):
        made = torch.zeros(8, device="cuda")
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            made.add_(1)
        self.pending = made

    def make(self):
        return torch.zeros(8, device="cuda")
"""


def test_memory_dropped_by_a_reset_method_is_not_reported():
    assert "SYN201" in [code for code, _, _ in found(DROPPED.format(name="skip"))]
    assert found(DROPPED.format(name="reset_state")) == []
