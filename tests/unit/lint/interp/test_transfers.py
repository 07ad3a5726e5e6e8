"""Copies between the host and devices."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\n"
H = "h = torch.ones(4, pin_memory=True)\n"
P = "p = torch.ones(4)\n"


@pytest.mark.parametrize(
    ("call", "calls"),
    [
        ("y = h.to('cuda')", ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2", "sync cuda:0"]),
        ("y = h.cuda(non_blocking=True)", ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2"]),
        ("y = h.to('cuda', non_blocking=True)", ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2"]),
        (
            "y = h.to(torch.device('cuda', 1), torch.float16)",
            ["allocate 2 on cuda:1", "launch cuda:1 copy_ r1 w2", "sync cuda:1"],
        ),
        ("y = p.to('cuda', non_blocking=True)", ["allocate 2 on cuda:0", "pageable_copy", "launch cuda:0 copy_ w2"]),
        ("y = p.to('cuda')", ["allocate 2 on cuda:0", "launch cuda:0 copy_ w2", "sync cuda:0"]),
        ("y = p.pin_memory()", ["allocate 2 on host"]),
        ("y = p.to('cpu')", []),
        ("y = p.to(torch.float16)", []),
        ("y = p.to(unknown)", []),
    ],
)
def test_copies_to_a_device(call, calls):
    assert calls_of(call, H + P) == calls


@pytest.mark.parametrize(
    ("call", "calls"),
    [
        ("y = x.cpu()", ["launch cuda:0 copy_ r1", "sync cuda:0"]),
        ("y = x.to('cpu', non_blocking=True)", ["allocate 2 on host", "launch cuda:0 copy_ r1 w2"]),
        ("y = x.to('cuda')", []),
        ("y = x.to('cuda', copy=True)", ["allocate 2 on cuda:0", "launch cuda:0 copy_ r1 w2"]),
        ("y = x.to('cuda', torch.half)", ["allocate 2 on cuda:0", "launch cuda:0 _to_copy r1 w2"]),
        ("y = x.to(torch.half)", ["allocate 2 on cuda:0", "launch cuda:0 _to_copy r1 w2"]),
        ("x.copy_(x)", ["launch cuda:0 copy_ w1"]),
        ("x.copy_(1)", ["launch cuda:0 copy_ w1"]),
    ],
)
def test_copies_from_and_within_a_device(call, calls):
    assert calls_of(call, X) == calls


def test_a_copy_to_something_unknown_reads_a_tensor_on_its_device():
    assert calls_of("f().copy_(x, non_blocking=True)", X) == ["launch cuda:0 copy_ r1"]
    assert calls_of("f().copy_(x)", X)[0] == "launch cuda:0 copy_ r1"
    assert not any("copy_" in call for call in calls_of("f().copy_(p)", P))


@pytest.mark.parametrize("args", ["h, non_blocking=True", "h, True"])
def test_a_tensor_is_filled_from_another_device(args):
    assert calls_of(f"x.copy_({args})", X + H) == ["launch cuda:0 copy_ r2 w1"]
    assert calls_of("h.copy_(x)", X + H) == ["launch cuda:0 copy_ r1 w2", "sync cuda:0"]


def test_a_copy_between_devices_makes_both_streams_wait():
    assert calls_of("y = x.to('cuda:1')", X) == [
        "allocate 2 on cuda:1", "wait cuda:0 for cuda:1 (torch)", "launch cuda:0 copy_ r1 w2",
        "wait cuda:1 for cuda:0 (torch)",
    ]  # fmt: skip


def test_repeated_peer_copies_queued_behind_compute_are_reported():
    source = "for _ in range({}):\n    y = x.to('cuda:1')"
    for turns, expected in ((2, []), (3, ["SYN804"]), (5, ["SYN804"])):
        program = follow(X + source.format(turns))
        assert [finding.rule.code for finding in program.machine.findings if finding.rule.code == "SYN804"] == expected
    program = follow("x = torch.empty(4, device='cuda')\n" + source.format(5))
    assert [f for f in program.machine.findings if f.rule.code == "SYN804"] == []


def test_an_unknown_value_moved_to_a_device_is_a_tensor_there():
    assert calls_of("y = f().cuda()") == ["allocate 1 on cuda:0", "launch cuda:0 _to_copy w1", "sync cuda:0"]
    assert calls_of("y = f().to('cuda', non_blocking=True)") == ["allocate 1 on cuda:0", "launch cuda:0 _to_copy w1"]
    assert constant("y", "y = f().to('cuda')") == "unknown"


def test_an_unknown_value_moved_to_another_device_may_come_from_the_current_one():
    assert calls_of("y = f().to('cuda:1', non_blocking=True)") == []  # whose stream would copy it
    assert constant("y", "y = f().cuda(1)") == "unknown"


def test_a_layer_is_moved_with_its_parameters():
    before = "l = torch.nn.Linear(4, 4)\n"
    assert calls_of("l.cuda()", before) == ["allocate 1 on cuda:0", "launch cuda:0 copy_ w1", "sync cuda:0"]
    assert calls_of("l.to('cpu')", before) == []
    assert follow(before + "l.cuda()").scope.names["l"].weight.is_leaf


def test_a_copy_keeps_the_leaves_for_the_backward_pass():
    program = follow("w = torch.ones(4, requires_grad=True)\ny = w.cuda()")
    assert program.scope.names["y"].leaves == (program.scope.names["w"],)


@pytest.mark.parametrize(("stream", "codes"), [("torch.cuda.Stream()", ["SYN301"]), ("given", [])])
def test_unknown_code_may_wait_for_an_array_that_an_unknown_stream_fills(stream, codes):
    source = f"""import torch
def send(x, given, other):
    torch.cuda.set_stream({stream})
    array = x.to("cpu", non_blocking=True).numpy()
    other.enqueue(array)
"""
    assert [finding.rule.code for finding in lint_source("m.py", Text(source)).findings] == codes


def test_a_tensor_that_is_pinned_is_not_on_a_gpu_after_all():
    assert calls_of("y = x.pin_memory()", X) == ["allocate 2 on host"]
    assert calls_of("x.sin_()", X + "y = x.pin_memory()\n") == ["launch cuda:0 sin_"]
