"""Events that are recorded before what a stream uses after them."""

import pytest

from syncheck.lint.patterns import outdated_events
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

FUNCTION = """
def forward(self, x):
    current = torch.cuda.current_stream()
    {before}
    y = {value}
    {after}
    {wait}
    with torch.cuda.stream(self.side):
        {work}
"""


def found(
    *,
    before="self.ready.record(current)",
    value="self.proj(x)",
    after="pass",
    wait="self.side.wait_event(self.ready)",
    work="dist.all_reduce(y)",
):
    source = FUNCTION.format(before=before, value=value, after=after, wait=wait, work=work)
    file = SourceFile("file.py", source)
    assert outdated_events.can_matter(source)
    return [f.message for f in outdated_events.findings(context_of(file))]


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ("self.ready.record(current)", "self.ready"),
        ("self.ready.record()", "self.ready"),
        ("event = current.record_event()", "event"),
        ("event = torch.cuda.current_stream(x.device).record_event()", "event"),
    ],
)
@pytest.mark.parametrize("how", ["self.side.wait_event({})", "{}.wait(self.side)"])
def test_a_value_computed_after_the_event_is_not_covered_by_it(before, event, how):
    (message,) = found(before=before, wait=how.format(event))
    assert f"stream `self.side` waits for `{event}`, which is recorded before `y` is computed" in message


@pytest.mark.parametrize(
    "changes",
    [
        {"before": "pass", "after": "self.ready.record(current)"},
        {"after": "self.ready.record(current)"},  # recorded again
        {"after": "self.side.wait_stream(current)"},
        {"work": "self.side.wait_stream(current); dist.all_reduce(y)"},
        {"before": "self.ready.record(self.other)"},
        {"wait": "self.side.wait_event(self.other)"},
        {"wait": "self.other.wait_event(self.ready)"},
        {"work": "dist.all_reduce(x)"},  # not what is computed too late
        {"value": "self.pool.acquire(4)"},
        {"value": "[x]"},
        {"value": "make()"},
    ],
)
def test_other_events_and_values_are_ordered_or_unknown(changes):
    assert found(**changes) == []
