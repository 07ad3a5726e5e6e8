"""SYN801 in source: a training loop reads its loss on every iteration."""

import pytest

from syncheck.lint.rules.host_sync_in_loop import HostSyncInLoop
from tests.unit.lint.rules.shape import findings, found, lines

LOOP = """\
for x in data:
    loss = step(x)
    loss.backward()
    {use}
"""


@pytest.mark.parametrize(
    ("use", "call"),
    [
        ("total += loss.item()", "loss.item()"), ("print(loss.tolist())", "loss.tolist()"),
        ("losses.append(loss.cpu())", "loss.cpu()"),
        ("with tape: log(loss.item())", "loss.item()"),
    ],
)  # fmt: skip
def test_a_loss_that_is_read_on_every_iteration_is_found(use, call):
    assert found(HostSyncInLoop, LOOP.format(use=use)) == [(4, call)]


def test_the_message_names_the_call():
    (finding,) = findings(HostSyncInLoop, LOOP.format(use="total += loss.item()"))
    assert finding.rule.code == "SYN801"
    assert "`loss.item()`" in finding.message


@pytest.mark.parametrize("loss", ["self.loss", "losses['all']", "out.loss.mean()"])
def test_a_loss_is_any_expression_that_a_backward_pass_begins_at(loss):
    assert lines(HostSyncInLoop, f"while True:\n    {loss}.backward()\n    print({loss}.item())\n") == [3]


@pytest.mark.parametrize(
    "use",
    ["if step % 10 == 0: print(loss.item())", "total += loss.detach()", "print(accuracy.item())", "print(item(loss))",
     "with syncheck.allow_sync('logs'): print(loss.item())", "print(loss.item)", "hook(lambda: loss.item())",
     "loss.to('cpu')"],
)  # fmt: skip
def test_what_is_read_now_and_then_or_is_no_loss_is_not(use):
    assert lines(HostSyncInLoop, LOOP.format(use=use)) == []


def test_a_loop_on_one_line_is_a_loop():
    assert lines(HostSyncInLoop, "while True: loss.backward(); print(loss.item())\n") == [1]


def test_a_loop_without_a_backward_pass_trains_nothing():
    assert lines(HostSyncInLoop, LOOP.format(use="print(loss.item())").replace("backward", "forward")) == []


def test_of_loops_inside_of_loops_the_inner_one_reads():
    inner = LOOP.format(use="print(loss.item())").replace("\n", "\n    ")
    assert lines(HostSyncInLoop, f"for epoch in range(3):\n    {inner}\n") == [5]
    assert lines(
        HostSyncInLoop, f"for epoch in range(3):\n    {inner.replace('item()', 'dim()')}\n    loss.item()\n"
    ) == [7]
