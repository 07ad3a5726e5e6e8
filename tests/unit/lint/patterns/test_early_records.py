"""Events that are recorded before the work that they stand for."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.early_records import early_record

SOURCE = """
def swap(self, x, stream):
    {before}
    event = {made}
    {record}
    {keep}
    with torch.cuda.stream(stream):
        {work}
    {after}
"""


def found(
    before="pass",
    made="torch.cuda.Event()",
    record="event.record(stream)",
    keep="self.event = event",
    work="copy(x)",
    after="pass",
):
    source = SOURCE.format(before=before, made=made, record=record, keep=keep, work=work, after=after)
    function = ast.parse(textwrap.dedent(source)).body[0]
    assigned = (node for node in walk(function) if isinstance(node, ast.Assign))
    call = next(node.value for node in assigned if ast.unparse(node.targets) == "event")
    early = early_record(function, "event", call)
    return early and tuple(getattr(node, "lineno", None) or node.context_expr.lineno for node in early)


def test_the_record_and_the_work_are_returned():
    assert found() == (5, 7)
    assert found(record="event.record(stream=stream)") == (5, 7)
    assert found(made="stream.record_event()", record="pass") == (4, 7)


@pytest.mark.parametrize("record", ["event.record(stream)", "event.record()"])
def test_a_block_may_begin_with_the_record(record):
    assert found(record="pass", work=f"{record}; copy(x)") == (8, 8)
    assert found(record="pass", work=f"copy(x); {record}") is None
    assert found(record="pass", work=record) is None
    assert found(record="pass", work=f"{record}; self.stream.wait_event(other)") is None
    assert found(record="pass", work=f"{record}; copy(x)", keep="event.wait()") is None
    assert found(record="pass", work=f"{record}; copy(x)", before="run(stream)") is None
    assert found(record="pass", work="event.record(other); copy(x)") is None


@pytest.mark.parametrize("keep", ["self.events[x] = event", "self.events.append(event)", "self.queue.put((x, event))"])
def test_an_event_may_be_kept_in_a_container(keep):
    assert found(keep=keep) == (5, 7)
    assert found(keep="pass", after="return event") == (5, 7)


@pytest.mark.parametrize(
    "given",
    [
        {"keep": "pass"},  # for the function itself
        {"record": "pass"},
        {"record": "event.record()"},
        {"record": "event.record(other)"},
        {"work": "pass"},
        {"work": "event.wait()"},
        {"after": "event.record(stream)"},
        {"after": "other.wait_event(event)"},
        {"after": "event.synchronize()"},
        {"before": "with torch.cuda.stream(stream): copy(x)"},  # the event may stand for that work
        {"before": "copy(x, stream)"},
        {"before": "stream = torch.cuda.current_stream()"},
        {"record": "if x: event.record(stream)"},
    ],
)
def test_an_event_that_may_be_for_other_work_is_not_found(given):
    assert found(**given) is None
