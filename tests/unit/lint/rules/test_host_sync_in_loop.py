"""SYN801 in source: a training loop reads its loss on every iteration."""

import pytest

from syncheck.lint.rules.host_sync_in_loop import HostSyncInLoop
from tests.unit.lint.rules.syntactic import findings, found, lines

LOOP = """\
data = data.to("cuda")
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
def test_a_loss_read_on_every_iteration_is_found(use, call):
    assert found(HostSyncInLoop, LOOP.format(use=use)) == [(5, call)]


def test_the_message_names_the_call():
    (finding,) = findings(HostSyncInLoop, LOOP.format(use="total += loss.item()"))
    assert finding.rule.code == "SYN801"
    assert "`loss.item()`" in finding.message


@pytest.mark.parametrize("loss", ["self.loss", "losses['all']", "out.loss.mean()"])
def test_a_loss_is_any_expression_with_a_backward_call(loss):
    assert lines(HostSyncInLoop, f"while True:\n    {loss}.backward()\n    print({loss}.item())  # on cuda:0\n") == [3]


@pytest.mark.parametrize(
    "use",
    ["if step % 10 == 0: print(loss.item())", "total += loss.detach()", "print(accuracy.item())", "print(item(loss))",
     "with syncheck.allow_sync('logs'): print(loss.item())", "print(loss.item)", "hook(lambda: loss.item())",
     "loss.to('cpu')"],
)  # fmt: skip
def test_occasional_reads_and_other_values_are_not_reported(use):
    assert lines(HostSyncInLoop, LOOP.format(use=use)) == []


def test_a_single_line_loop_is_a_loop():
    assert lines(HostSyncInLoop, "while True: loss.backward(); print(loss.item(), torch.cuda)\n") == [1]


def test_a_loop_without_a_backward_pass_is_not_reported():
    assert lines(HostSyncInLoop, LOOP.format(use="print(loss.item())").replace("backward", "forward")) == []


def test_in_nested_loops_the_inner_one_is_reported():
    inner = LOOP.format(use="print(loss.item())").replace("\n", "\n    ")
    assert lines(HostSyncInLoop, f"for run in range(300):\n    {inner}\n") == [6]
    after = f"for step in range(300):\n    {inner.replace('item()', 'dim()')}\n    print(loss.item())\n"
    assert lines(HostSyncInLoop, after) == [8]


@pytest.mark.parametrize(
    "head", ["for epoch in range(3):", "for i in range(args.epochs):", "for _ in tqdm(range(N_EPOCHS)):"]
)
def test_reading_the_loss_once_per_epoch_is_not_reported(head):
    assert lines(HostSyncInLoop, LOOP.format(use="print(loss.item())").replace("for x in data:", head)) == []


def test_a_loop_over_the_steps_of_an_epoch_is_reported():
    source = LOOP.format(use="print(loss.item())").replace("for x in data:", "for step in range(steps_per_epoch):")
    assert lines(HostSyncInLoop, source) == [5]


def test_only_one_read_per_loop_is_reported():
    use = "print(loss.item())\n    total += loss.item()"
    assert lines(HostSyncInLoop, LOOP.format(use=use)) == [5]


@pytest.mark.parametrize(
    ("device", "expected"),
    [("data.to(args.device)", []), ("data.cuda()", [5]), ("accelerator.prepare(data)", [5]), ("barracuda(data)", []),
     ("init_process_group('nccl')", [5])],
)  # fmt: skip
def test_the_file_must_use_a_gpu(device, expected):
    source = LOOP.format(use="print(loss.item())").replace('data.to("cuda")', device)
    assert lines(HostSyncInLoop, source) == expected


@pytest.mark.parametrize(("iterable", "expected"), [("range(3)", []), ("range(20)", [5]), ("range(n)", [5])])
def test_a_loop_with_few_iterations_is_not_reported(iterable, expected):
    source = LOOP.format(use="print(loss.item())").replace("for x in data", f"for x in {iterable}")
    assert lines(HostSyncInLoop, source) == expected
