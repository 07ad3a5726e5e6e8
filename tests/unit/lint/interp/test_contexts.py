"""State that `with` makes current."""

import pytest

from syncheck.lint.interp.contexts import restoring, within
from syncheck.lint.interp.values import NONE, UNKNOWN, Context
from tests.unit.lint.program import calls_of

X = "x = torch.ones(4, device='cuda')\n"
S = "s = torch.cuda.Stream()\n"


def work(stream="cuda:0"):
    return f"launch {stream} sin_ w1"


def test_a_context_restores_the_state_once():
    state = [1]
    context = restoring(lambda: state[0], lambda: state.__setitem__(0, 2), lambda value: state.__setitem__(0, value))
    context.enter()
    assert state == [2]
    context.leave()
    context.leave()
    assert state == [1]


def test_a_stream_is_current_inside_its_block():
    assert calls_of("with torch.cuda.stream(s):\n    x.sin_()\nx.sin_()", X + S) == [work("s1"), work()]
    assert calls_of("with s:\n    x.sin_()\nx.sin_()", X + S) == [work("s1"), work()]


def test_stream_blocks_can_be_nested():
    source = "with torch.cuda.stream(s):\n    with torch.cuda.stream(t):\n        x.sin_()\n    x.sin_()"
    assert calls_of(source, X + S + "t = torch.cuda.Stream()\n") == [work("s2"), work("s1")]


def test_a_stream_makes_its_device_current():
    source = "s = torch.cuda.Stream(device=1)\nwith torch.cuda.stream(s):\n    y = torch.empty(4, device='cuda')"
    assert calls_of(source) == ["allocate 1 on s1"]


def test_work_on_another_device_has_a_context_that_does_not_apply():
    source = "s = torch.cuda.Stream(device=1)\nwith torch.cuda.stream(s):\n    x.sin_()\nx.sin_()"
    assert calls_of(source, X) == [work() + " in a context of s1", work()]


def test_an_unknown_stream_or_device_makes_the_current_stream_unknown():
    for source in ("torch.cuda.stream(f())", "stream_ctx", "device_context(1)"):
        assert calls_of(f"with {source}:\n    x.sin_()\nx.cos_()", X) == ["launch cuda:0 cos_"]


@pytest.mark.parametrize(
    ("context", "waits"),
    [
        ("torch.autocast('cuda')", False), ("open('x')", False), ("lock", False), ("record_function('a')", False),
        ("timer", True), ("something()", True),
    ],
)  # fmt: skip
def test_unknown_contexts_may_wait_at_their_end(context, waits):
    assert (calls_of(f"with {context}:\n    x.sin_()", X)[-1] == "all complete") is waits


def test_generators_and_objects_of_the_program_can_be_contexts():
    generator = X + S + "from contextlib import contextmanager\n"
    generator += "@contextmanager\ndef on_side():\n    with torch.cuda.stream(s):\n        yield s\n"
    assert calls_of("with on_side() as t:\n    x.sin_()\nx.sin_()", generator) == [work("s1"), work()]
    kind = X + "class C:\n    def __enter__(self): x.cos_()\n    def __exit__(self, *a): x.tan_()\n"
    assert calls_of("with C():\n    x.sin_()", kind) == ["launch cuda:0 cos_ w1", work(), "launch cuda:0 tan_ w1"]


def test_a_context_is_left_even_if_what_runs_in_it_fails():
    calls = []
    context = Context(lambda: calls.append("enter") or UNKNOWN, lambda: calls.append("leave"))

    def fail():
        calls.append("run")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        within(context, fail)
    assert calls == ["enter", "run", "leave"]
    assert within(context, lambda: NONE) is NONE


@pytest.mark.parametrize("polled", ["e", "s"])
def test_a_loop_that_polls_waits_for_what_it_polls(polled):
    before = f"{S}{X}e = torch.cuda.Event()\ne.record(s)\n"
    (call,) = calls_of(f"while not {polled}.query():\n    pass", before)
    assert call.startswith("sync")
    assert set(calls_of("while not unknown.query():\n    pass", before)) == {"all complete"}


def test_an_event_that_is_not_known_to_be_recorded_may_stand_for_all_work():
    assert set(calls_of("while not e.query():\n    pass", "e = torch.cuda.Event()\n")) == {"all complete"}
