"""Results of a side stream that are used before the current stream waits for it."""

import textwrap

import pytest

from syncheck.lint.patterns import late_joins
from tests.unit.lint.checking import found_by

SOURCE = """
import torch
def step(self, x, side, batches):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = encode(x)
    {between}
    torch.cuda.current_stream().wait_stream(side)
    return y + 1
"""


def found(between, source=SOURCE):
    return found_by(late_joins, textwrap.dedent(source).replace("{between}", between.replace("\n", "\n    ")))


@pytest.mark.parametrize(
    "between",
    [
        "z = y * 2",
        "z = torch.relu(y)",
        "z = y.to(dtype)",
        "y = y * 2",
        "z = y[0] + 1",
        "if self.wide: y = y + y",
        "z = torch.cat([x, y])",
        "y = torch.cat(\n[x, y])",
    ],
)
def test_a_use_before_the_wait_is_reported(between):
    assert found(between) == [("SYN105", 7 + between.count("\n"))]


@pytest.mark.parametrize(
    "between",
    [
        "torch.cuda.current_stream().wait_stream(self.other)",
        "n = x.sum().item()",  # waits for the current stream only
        "parts.append(x)",
    ],
)
def test_waits_for_other_streams_do_not_matter(between):
    assert found(f"{between}\nz = y * 2") == [("SYN105", 8)]


@pytest.mark.parametrize(
    "between",
    [
        "pass",
        "z = x * 2",
        "n = y.shape[0]",
        "y.record_stream(torch.cuda.current_stream())",
        "z = y",
        "pending = (y, x)",
        "self.done.append(y)",
        "late = lambda: y + 1",
        "y = x + 1\nz = y * 2",  # another value
        "assert y is not None",
        "with torch.cuda.stream(side): z = y * 2",
        "side.synchronize()\nz = y * 2",
        "with torch.cuda.stream(side): n = y.sum().item()\nz = y * 2",
        "torch.cuda.current_stream().wait_event(self.done)\nz = y * 2",
        "if y is None: return y",
        "finish(x)\nz = y * 2",  # it may wait
        "z = decode(y)",
        "z = torch.zeros_like(y)",
    ],
)
def test_other_code_before_the_wait_is_not(between):
    assert found(between) == []


FILLED = """
import torch
def step(x, config, n):
    side = config.stream
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for i in range(n):
            parts[{index}] = {made}
    z = {use}
    current.wait_stream(side)
"""


@pytest.mark.parametrize(
    ("index", "made", "use", "is_reported"),
    [
        ("i", "torch.cat(x[i:])", "w.matmul(parts[0])", True),
        ("i", "torch.cat(x[i:])", "parts[0] + 1", True),
        ("i", "torch.cat(x[i:])", "find(parts[0])", False),
        ("i", "x[i]", "w.matmul(parts[0])", False),
        ("i + 1", "torch.cat(x[i:])", "w.matmul(parts[0])", False),
    ],
)
def test_the_elements_of_a_list_that_a_loop_fills_are_results(index, made, use, is_reported):
    source = FILLED.format(index=index, made=made, use=use)
    assert found("", source) == ([("SYN105", 10)] if is_reported else [])


BRANCHES = """
import torch
def step(x, side):
    if side is not None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = encode(x)
    else:
        y = encode(x)
        y = y * 3
    {between}
    if side is not None:
        torch.cuda.current_stream().wait_stream(side)
    return y
"""


def test_the_other_branch_does_not_use_the_stream():
    assert found("y = y * 2", BRANCHES) == [("SYN105", 11)]
    assert found("pass", BRANCHES) == []


LOOP = """
import torch
def load(batches, side):
    for batch in batches:
        with torch.cuda.stream(side):
            following = move(batch)
        {between}
    torch.cuda.current_stream().wait_stream(side)
"""


def test_a_wait_after_the_loop_may_be_another_one():
    assert found("use(following)", LOOP) == []


NEVER = """
import torch
def train(batches, model, n):
    side = torch.cuda.Stream()
    for x in batches:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = encode(x)
        steps = n.cpu()
        {between}
        z = y + steps
"""


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("pass", [("SYN105", 11)]),
        ("order(side)", []),  # it may wait
        ("done = side.record_event()", []),
        ("torch.cuda.synchronize()", []),
        ("if side is not None: pass", [("SYN105", 11)]),
    ],
)
def test_a_stream_that_is_never_waited_for(between, expected):
    assert found(between, NEVER) == expected


def test_a_stream_of_others_may_be_waited_for_elsewhere():
    assert found("pass", NEVER.replace("side = torch.cuda.Stream()", "side = make()")) == []
    assert found("pass", NEVER.replace("side.wait_stream(torch.cuda.current_stream())", "pass")) == []


@pytest.mark.parametrize("source", [SOURCE, NEVER])
def test_a_block_in_which_the_host_waits_is_complete(source):
    source = source.replace("encode(x)", "encode(x).cpu()")
    assert found("z = y * 2", source) == []


def test_a_line_that_is_known_is_not_reported_again():
    assert not late_joins.can_matter("import torch\n")
