"""Findings that may have no consequence where they are."""

import ast

import pytest

from syncheck.lint import consequences
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

HEAD = "import time\nimport torch\nimport torch.distributed as dist\n"


def found(source):
    """Return (code, level) of each finding in a file."""
    result = lint_source("m.py", Text(HEAD + source))
    assert not result.problem, result.problem
    return [(finding.rule.code, finding.level.value) for finding in result.findings]


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
    ("count", "level"), [("n_warmup", "advice"), ("n_steps", "error"), ("n_warmup + n_steps", "error")]
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


TIMED = """
def f():
    x = torch.randn(64, 64, device="cuda")
    start = time.time()
    for i in range(1000):
        y = x @ x
        {read}
    print(time.time() - start)
"""


@pytest.mark.parametrize(("read", "level"), [("if i == 999: print(y.tolist())", "warning"), ("pass", "error")])
def test_a_read_that_may_be_in_the_last_iteration(read, level):
    assert found(TIMED.format(read=read)) == [("SYN701", level)]


AHEAD = """
def f(log):
    x, side = torch.randn(64, 64, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    {before}
    for i in range(100):
        {first}
        with torch.cuda.stream(side):
            y = x @ x
        log.info("step %d, %.1f s", i, time.time() - start)
"""


@pytest.mark.parametrize(
    ("before", "first", "codes"),
    [("start = time.time()", "pass", []), ("pass", "start = time.time()", ["SYN701"])],
)
def test_work_for_the_next_iteration_may_run_ahead(before, first, codes):
    assert [code for code, _ in found(AHEAD.format(before=before, first=first))] == codes


GROUP = """
def f():
    dist.init_process_group({backend})
    x = torch.randn(1 << 20, device="cuda")
    torch.cuda.synchronize()
    start = time.time()
    dist.all_reduce(x)
    {after}
    print(time.time() - start)
"""


@pytest.mark.parametrize(
    ("backend", "after", "codes"),
    [
        ('"gloo", rank=0', "pass", []),
        ('"nccl"', "pass", ["SYN701"]),
        ("", "pass", ["SYN701"]),
        ('"cpu:gloo,cuda:nccl"', "pass", ["SYN701"]),
        ('"gloo"', "y = x @ x", ["SYN701"]),
    ],
)
def test_the_host_waits_for_collectives_of_gloo(backend, after, codes):
    assert [code for code, _ in found(GROUP.format(backend=backend, after=after))] == codes


def test_other_findings_keep_their_level():
    result = lint_source("m.py", Text(HEAD + COLLECTIVE.format(change="print(c.sum())")))
    (finding,) = result.findings
    assert consequences.weighed(finding, ast.parse("")) is finding
