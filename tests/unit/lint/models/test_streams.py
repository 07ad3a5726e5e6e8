"""Models of torch's streams, events and devices."""

import pytest

from tests.unit.lint.program import calls_of, constant, follow

S = "s = torch.cuda.Stream()\nt = torch.cuda.Stream(device=1)\n"
E = "e = torch.cuda.Event()\nf = torch.cuda.Event(enable_timing=True)\n"
X = "x = torch.ones(4, device='cuda')\n"


# -- devices


@pytest.mark.parametrize(
    ("expression", "index"),
    [("torch.device('cuda:1')", 1), ("torch.device('cuda', 1)", 1), ("torch.device('cpu')", None),
     ("torch.device(2)", 2),
     ("torch.device('cuda')", 0), ("torch.device(type='cuda', index=3)", 3), ("torch.device('cpu', 0)", None)],
)  # fmt: skip
def test_device_indices_are_known(expression, index):
    assert follow(f"d = {expression}").scope.names["d"].index == index


def test_a_device_is_current_in_its_block_or_until_changed():
    source = "with torch.cuda.device(1):\n    a = torch.empty(1, device='cuda')\nb = torch.empty(1, device='cuda')"
    assert calls_of(source) == [
        "allocate 1 on cuda:1", "allocate 2 on cuda:0",
    ]  # fmt: skip
    assert calls_of("torch.cuda.set_device(1)\na = torch.empty(1, device='cuda')") == ["allocate 1 on cuda:1"]
    assert constant("torch.cuda.current_device()", "torch.cuda.set_device(2)") == 2


def test_the_host_does_not_wait_for_kernels_of_cuda():
    made = "from deepspeed.accelerator import get_accelerator\n"
    assert constant("get_accelerator().use_host_timers()", made) is False


# -- streams


def test_streams_are_created_and_looked_up():
    program = follow(S + "c = torch.cuda.current_stream()\nd = torch.cuda.default_stream(1)")
    names = program.scope.names
    assert [names[name].device for name in "stcd"] == [0, 1, 0, 1]
    assert [str(names[name].origin) for name in "stcd"] == ["", "", "current_stream", "default_stream"]


def test_streams_wait_for_streams_and_events():
    assert calls_of("s.wait_stream(t)\ns.wait_event(e)\ns.record_event(e)\nh = s.record_event()", S + E) == [
        "wait s1 for s2", "wait s1 for e1 (stream)", "record e1 on s1", "record e2 on s1",
    ]  # fmt: skip
    assert calls_of("torch.cuda.current_stream().wait_stream(s)", S) == ["wait cuda:0 for s1 (current_stream)"]


def test_the_host_waits_for_streams_and_devices():
    assert calls_of("s.synchronize()\ntorch.cuda.synchronize()\ntorch.cuda.synchronize(1)", S) == [
        "sync s1 (asked for)", "sync device 0", "sync device 1",
    ]  # fmt: skip


def test_a_stream_can_be_set_or_entered():
    assert calls_of("torch.cuda.set_stream(s)\nx.sin_()", S + X) == ["launch s1 sin_ w1"]
    assert calls_of("s.__enter__()\nx.sin_()", S + X) == ["launch s1 sin_ w1"]
    assert calls_of("torch.cuda.set_stream(unknown)\nx.sin_()\nx.cos_()", S + X) == []
    assert calls_of("c = torch.cuda.stream(s)\nc.__enter__()\nx.sin_()\nc.__exit__()\nx.cos_()", S + X) == [
        "launch s1 sin_ w1", "launch cuda:0 cos_ w1",
    ]  # fmt: skip


def test_other_backends_have_the_same_streams():
    assert calls_of("a = torch.xpu.Stream()\na.synchronize()") == ["sync s1 (asked for)"]


# -- events


def test_events_are_recorded_waited_for_and_synchronized():
    assert calls_of("e.record()\ne.record(s)\ne.wait()\ne.wait(s)\ne.synchronize()", S + E) == [
        "record e1 on cuda:0", "record e1 on s1", "wait cuda:0 for e1 (event)", "wait s1 for e1 (event)", "sync e1",
    ]  # fmt: skip


def test_the_time_between_events_is_reported():
    assert calls_of("e.record()\nf.record()\ne.elapsed_time(f)", E)[-1] == "elapsed e1 e2"
    assert calls_of("f.elapsed_time(unknown())", E) == []


def test_an_event_recorded_on_an_unknown_stream_escapes():
    assert calls_of("e.record(unknown())\ne.synchronize()", E) == ["all complete", "all complete"]


def test_an_event_with_unknown_timing_escapes():
    program = follow(
        "e = torch.cuda.Event(unknown)\nf = torch.cuda.Event(**options)\ng = torch.cuda.Event(enable_timing=True)"
    )
    assert [program.scope.names[name].escaped for name in "efg"] == [True, True, False]


def test_unknown_methods_are_unknown_code():
    assert calls_of("s.foo()", S) == []
    assert calls_of("s.foo(e)", S + E) == ["all complete"]
    assert constant("e.query()", E) == "query"


def test_synchronizing_another_backend_completes_all_work():
    assert calls_of("torch.mps.synchronize()") == ["all complete"]


def test_the_first_argument_of_a_generic_event_is_its_device():
    program = follow(
        "e = torch.Event(unknown)\nf = torch.Event('cuda', enable_timing=True)\ng = torch.Event(enable_timing=u)"
    )
    events = [program.scope.names[name] for name in "efg"]
    assert [event.escaped for event in events] == [False, False, True]
    assert [event.has_timing for event in events] == [False, True, None]
