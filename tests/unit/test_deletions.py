"""Statements that `bench/mutation.py` and `bench/lint_deletions.py` delete."""

import pytest

from bench.deletions import deletions, marked, without

SOURCE = """\
def load(stream, other, x):
    stream.wait_stream(
        other
    )  # first
    record_stream(x, stream)
    done = stream.record_event()
    "ß"; x.record_stream(stream); x.add_(1)
    if x: done.wait()
    return stream.synchronize()
"""


def test_only_statements_that_consist_of_a_call_are_deleted():
    found = [(each.line, each.end, each.call, each.text) for each in deletions(SOURCE)]
    assert found == [
        (2, 4, "wait_stream", "stream.wait_stream( other )"),
        (5, 5, "record_stream", "record_stream(x, stream)"),
        (7, 7, "record_stream", "x.record_stream(stream)"),
        (8, 8, "wait", "done.wait()"),
    ]


@pytest.mark.parametrize(
    ("index", "line", "changed"),
    [
        (0, 2, "    pass  # first"),
        (1, 5, "    pass"),
        (2, 7, '    "ß"; pass; x.add_(1)'),
        (3, 8, "    if x: pass"),
    ],
)
def test_everything_else_stays_at_its_line(index, line, changed):
    lines = without(SOURCE, deletions(SOURCE)[index]).split("\n")
    before = SOURCE.split("\n")
    assert lines[line - 1] == changed
    assert len(lines) == len(before)
    assert lines[:1] + lines[8:] == before[:1] + before[8:]


def test_executed_statements_leave_a_mark(tmp_path):
    source = "class Event:\n    def wait(self): pass\ne = Event()\nif e:\n    e.wait(); e.wait()\nelse:\n    e.wait()\n"
    exec(marked(source, deletions(source), tmp_path), {})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0", "1"]
