"""Ordinary operators: the shortcut behaves like the general path."""

import pytest
import torch

from syncheck.sim.fast_path import FastPath
from tests.unit.sim.conftest import Gpus


def network():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            model(torch.ones(3, 4, device="cuda")), torch.tensor([0, 1, 1]).cuda()
        ).backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


def side_streams():
    w, side = torch.ones(3, device="cuda", requires_grad=True), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        made = w.exp()
    loss = (made.sin() + w.cos() * made).sum()
    loss.backward()
    w.detach().add_(1)
    return w.grad.tolist()


def memory():
    x = torch.zeros(4, 4, device="cuda")
    x.t().add_(1)
    x[1:, ::2].mul_(3)
    x[:0].add_(1)
    torch.add(x, 1, out=torch.empty(0, device="cuda"))
    x.resize_(8, 8)
    return (x[:4, :4].numel(), torch._foreach_sqrt([x[0].abs(), x[1].abs()])[0].numel())


def device_mismatches():
    x, pinned, number = torch.ones(3, device="cuda"), torch.ones(3).pin_memory(), torch.tensor(2.0)
    errors = []
    for run in (lambda: x + pinned, lambda: x + torch.ones(3), lambda: x * number, lambda: pinned * 2):
        try:
            run()
        except RuntimeError as error:
            errors.append(str(error))
    return errors


def kinds():
    x = torch.ones(3, 3, device="cuda")
    x.to_sparse().mul_(2)
    half = torch.ones(2, dtype=torch.int32, device="cuda")
    parts = torch.nested.nested_tensor([x[0], x[1, :2]])
    torch.nested.as_nested_tensor([x[0], x[1, :2]])
    return [torch.trace(x.to(torch.bool)).item(), half.abs().tolist(), (parts * 2).unbind()[1].tolist()]


def random_numbers():
    torch.manual_seed(3)
    x = torch.randn(4, device="cuda")
    return torch.nn.functional.dropout(x, 0.5).tolist() + torch.rand_like(x).tolist() + [x.max().item()]


def threads():
    from threading import Thread

    x = torch.ones(3, device="cuda", requires_grad=True)
    made = []
    thread = Thread(target=lambda: made.append(x * 2))
    thread.start()
    thread.join()
    made[0].sum().backward()
    return x.grad.tolist()


def capture():
    x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    x.mul(2)
    with torch.cuda.graph(graph):
        y = x.mul(2)
    x.add_(1)
    graph.replay()
    return y.tolist()


def rejected_view():
    try:
        torch.ones(3, device="cuda").view(2)
    except RuntimeError as error:
        return str(error)
    return None


def outcome(program):
    """Return a program's result, calls and findings, and whether some operators took the shortcut."""
    gpus = Gpus(2)
    torch.manual_seed(0)
    with gpus.simulator.watching():
        result = program()
        gpus.simulator.flush_calls()
    findings = gpus.session.report(gpus.sites).findings
    found = [(finding.rule.code, finding.location.frame.line, finding.message) for finding in findings]
    return (result, gpus.calls, found), bool(gpus.simulator.dispatcher.fast_path.shortcuts)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "program",
    [network, side_streams, memory, device_mismatches, kinds, random_numbers, threads, capture, rejected_view],
    ids=lambda p: p.__name__,
)
def test_results_are_the_same_as_without_shortcuts(program, monkeypatch):
    short, has_shortcuts = outcome(program)
    monkeypatch.setattr(FastPath, "add", lambda operators, func, plan: None)
    long, has_none = outcome(program)
    assert short == long
    assert (has_shortcuts, has_none) == (True, False)


def test_memory_of_a_failed_operator_is_freed_with_its_last_name(gpu):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="size"):
        x.add_(torch.ones(2, device="cuda"))
    with gpu.calling() as calls:
        del x
    assert calls == ["free 2", "free 1"]


def test_an_empty_tensor_is_not_accessed_although_its_view_is_known(gpu):
    empty = torch.empty(0, device="cuda")
    before = gpu.calls_of(lambda: empty.add_(1))
    gpu.runtime.memory.view(empty)  # as functional collectives do
    assert gpu.calls_of(lambda: empty.add_(1)) == before
