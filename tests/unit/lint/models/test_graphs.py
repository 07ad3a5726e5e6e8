"""CUDA graphs."""

from tests.unit.lint.program import calls_of, follow

G = "g = torch.cuda.CUDAGraph()\nx = torch.ones(4, device='cuda')\n"
CAPTURED = G + "with torch.cuda.graph(g):\n    x.sin_()\n"


def test_a_graph_block_captures_on_its_own_stream():
    assert calls_of("with torch.cuda.graph(g):\n    x.sin_()\nx.cos_()", G) == [
        "sync device 0", "capture on s1", "launch s1 sin_ w1", "capture_end", "launch cuda:0 cos_ w1",
    ]  # fmt: skip


def test_a_graph_block_may_use_a_given_stream():
    assert "capture on s1" in calls_of("s = torch.cuda.Stream()\nwith torch.cuda.graph(g, stream=s):\n    pass", G)


def test_a_replay_is_one_call_and_needs_a_capture():
    assert calls_of("g.replay()", CAPTURED) == ["replay on cuda:0"]
    assert calls_of("g.replay()", G) == []


def test_a_capture_may_begin_and_end_through_methods():
    source = (
        "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    g.capture_begin()\n    x.sin_()\n    g.capture_end()"
    )
    assert calls_of(source, G) == ["capture on s1", "launch s1 sin_ w1", "capture_end"]


def test_a_graph_is_captured_once():
    assert calls_of("with torch.cuda.graph(g):\n    pass", CAPTURED).count("capture on s2") == 0


def test_callables_are_captured_without_warm_up_only_if_requested():
    assert calls_of("torch.cuda.make_graphed_callables(f, x, 0)", G) == [
        "capture on s1", "launch s1 addmm", "capture_end",
    ]  # fmt: skip
    assert calls_of("torch.cuda.make_graphed_callables(f, x)", G) == []
    assert calls_of("torch.cuda.make_graphed_callables(f, x, 3)", G) == []


def test_an_unknown_graph_is_an_unknown_context():
    assert "capture on s1" not in calls_of("with torch.cuda.graph(unknown()):\n    pass", G)


def test_an_ordering_only_branch_captures_nothing():
    program = follow(G + "if unknown:\n    pass\nelse:\n    with torch.cuda.graph(g):\n        pass\n    g.replay()")
    assert not program.scope.names["g"].has_captured
    assert "replay on cuda:0" not in program.calls
