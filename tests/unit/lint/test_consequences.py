"""Findings that may have no consequence where they are."""

import ast

import pytest

from syncheck.lint import consequences
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from tests.unit.lint.checking import HEAD
from tests.unit.lint.checking import found_with_levels as found

WARM_UP = """
x, s = torch.randn(64, device="cuda"), torch.cuda.Stream()
out, outs = torch.zeros(64, device="cuda"), []
torch.cuda.synchronize()
y = x * 2
with torch.cuda.stream(s):
    for _ in range(5):
        {work}
torch.cuda.synchronize()
{after}
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    z = y * 3
"""


@pytest.mark.parametrize(
    ("work", "after", "level"),
    [
        ("z = y * 3", "pass", "advice"),
        ("z = y * 3", "print(z)", "error"),
        ("z = y * 3; out.add_(z)", "pass", "error"),
        ("out[0] = (y * 3)[0]", "pass", "error"),
        ("torch.mul(y, 3, out=out)", "print(out)", "error"),
        ("outs.append(y * 3)", "print(outs)", "error"),
        ("out += y", "print(out)", "error"),
        ("print((y * 3).sum().item())", "pass", "error"),
    ],
)
def test_a_warm_up_whose_results_are_dropped(work, after, level):
    assert ("SYN101", level) in found(WARM_UP.format(work=work, after=after))


@pytest.mark.parametrize(
    ("count", "level"), [("n_warmup", "advice"), ("n_steps", "warning"), ("n_warmup + n_steps", "warning")]
)
def test_a_loop_that_says_that_it_is_a_warm_up(count, level):
    source = f"""
def bench(n_warmup, n_steps):
    x, s = torch.randn(64, device="cuda"), torch.cuda.Stream()
    for _ in range({count}):
        with torch.cuda.stream(s):
            y = x * 2
    torch.cuda.synchronize()
"""
    assert found(source)[0] == ("SYN101", level)


COLLECTIVE = """
def f(g):
    c = torch.randn(64, device="cuda")
    work = dist.all_reduce(c, async_op=True)
    {change}
    work.wait()
"""


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ("dist.all_reduce(c)", "warning"),
        ("dist.broadcast(c, 0)", "warning"),
        ("c.zero_()", "error"),
        ("dist.all_reduce(c, group=g)", "error"),
        ("dist.all_reduce(c, group=get_group(Mode.TENSOR))", "error"),
    ],
)
def test_a_buffer_that_another_collective_changes(change, level):
    assert found(COLLECTIVE.format(change=change)) == [("SYN602", level)]


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("t = torch.tensor(ids, device='cuda'); dist.isend(tensor=t, dst=1)", "warning"),
        ("t = ids.serialize()\n    dist.isend(tensor=t, dst=1)", "warning"),
        ("t = ids\n    dist.isend(tensor=t, dst=1)", "error"),
        ("t = ids.view(-1)\n    dist.isend(tensor=t, dst=1)", "error"),
        ("t = ids.get(0)\n    dist.isend(tensor=t, dst=1)", "error"),
        ("t = torch.tensor(ids, device='cuda'); dist.isend(t, 1)\n    use(t)", "error"),
        ("dist.isend(ids, 1)", "error"),
        ("t = torch.tensor(ids, device='cuda'); dist.all_reduce(t, async_op=True)", "error"),
    ],
)
def test_a_message_that_only_its_send_uses(body, level):
    assert ("SYN603", level) in found(f"def f(ids, use):\n    {body}\n")


@pytest.mark.parametrize(
    ("name", "exchanged", "level"),
    [
        ("allreduce_async", "x", "warning"),
        ("begin_reduce", "tensor=x", "warning"),
        ("reduce", "x", "error"),
        ("restarted", "x", "error"),
        ("allreduce_async", "x.grad", "error"),
        ("start", "self_made", "error"),
    ],
)
def test_a_function_that_only_starts_a_collective_on_its_callers_tensor(name, exchanged, level):
    body = f"self_made = torch.ones(3, device='cuda')\n    dist.all_reduce({exchanged}, async_op=True)\n"
    assert found(f"def {name}(x):\n    {body}") == [("SYN603", level)]


BLOCK = """
def f(ms):
    x, s = torch.zeros(64, device="cuda"), torch.cuda.Stream()
    y = x + 1
    {before}
    with torch.cuda.stream(s):
        {first}
        {use}
    torch.cuda.synchronize()
    return x, y
"""


@pytest.mark.parametrize(
    ("before", "first", "use", "expected"),
    [
        ("pass", "torch.cuda._sleep(100000)", "x.fill_(1)", ("SYN102", "warning")),
        ("x.zero_()", "sleep_ms(10)", "x.fill_(1)", ("SYN103", "warning")),
        ("x.zero_()", "pass", "x.fill_(1)", ("SYN103", "error")),
        ("pass", "pass", "torch.mm(y, y)", ("SYN101", "warning")),
        ("pass", "pass", "y @ y", ("SYN101", "warning")),
        ("pass", "pass", "torch.mm(y, y, out=x)", ("SYN101", "error")),
        ("pass", "pass", "x = y @ y", ("SYN101", "error")),
        ("torch.cuda._sleep(100000)", "pass", "x = y * 2", ("SYN101", "error")),
    ],
)
def test_a_sleep_before_the_access_and_results_that_are_dropped(before, first, use, expected):
    assert expected in found(BLOCK.format(before=before, first=first, use=use))


@pytest.mark.parametrize(("after", "level"), [("pass", "error"), ("torch.cuda.synchronize()", "warning")])
def test_a_dropped_collective_in_a_file_that_synchronizes(after, level):
    source = f"def f(x):\n    dist.all_reduce(x, async_op=True)\n\ndef g(x):\n    {after}\n"
    assert found(source) == [("SYN603", level)]


CAPTURED = """
from models import model, other, position
x, graph = torch.randn(4, device="cuda"), torch.cuda.CUDAGraph()
for step in range(position, position + 8):
    if step < position + 1:
        {before}
    elif step == position + 1:
        with torch.cuda.graph(graph):
            y = model.forward(x)
    else:
        graph.replay()
"""


@pytest.mark.parametrize(("before", "is_found"), [("y = model.forward(x)", False), ("y = other(x)", True)])
def test_what_an_earlier_step_has_run_needs_no_warm_up(before, is_found):
    assert (("SYN901", "warning") in found(CAPTURED.format(before=before))) is is_found


def test_other_findings_keep_their_level():
    result = lint_source("m.py", Text(HEAD + COLLECTIVE.format(change="print(c.sum())")))
    (finding,) = result.findings
    assert consequences.weighed(finding, ast.parse("")) is finding
