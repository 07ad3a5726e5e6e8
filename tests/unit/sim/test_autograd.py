"""Backward passes on the streams of the forward pass, with the engine's implicit waits."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint


@pytest.fixture
def side(gpu):
    return torch.cuda.Stream()


def launches(calls):
    return {call.split()[1] for call in calls if call.startswith("launch")}


def waits(calls):
    return [call for call in calls if call.startswith("wait")]


def test_nodes_run_on_the_streams_of_their_forward(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss = w.sin().sum()
    with gpu.calling() as calls:
        loss.backward()
    assert launches(calls) >= {"s1"}
    assert waits(calls)[0] == "wait s1 for cuda:0 (torch)"
    assert waits(calls)[-1] == "wait cuda:0 for s1 (torch)"  # the caller's stream waits for the gradients
    assert gpu.codes() == []


def test_a_view_made_under_no_grad_can_be_used_with_gradients(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        made = w.sin()
        with torch.no_grad():
            view = made.view_as(made)
        assert view.requires_grad
        assert (view + 1).shape == (3,)


def cube(x):
    return (x**3).sum()


@pytest.mark.parametrize(
    "transform",
    [
        torch.func.grad,
        torch.func.grad_and_value,
        torch.func.jacrev,
        lambda work: torch.func.jacrev(torch.func.jacrev(work)),
        lambda work: torch.func.vmap(torch.func.grad(work)),
        lambda work: lambda x: torch.func.vjp(work, x)[1](torch.ones((), device="cuda")),
    ],
    ids=["grad", "grad_and_value", "jacrev", "jacrev twice", "vmap of grad", "vjp"],
)
def test_gradients_of_torch_func_are_on_the_stream_of_the_call(gpu, side, transform):
    w = torch.ones(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), gpu.calling() as calls:
        transform(cube)(w)
    assert launches(calls) == {"s1"}
    assert waits(calls) == []


def test_a_vjp_that_is_called_on_another_stream_joins_the_stream_of_its_forward(gpu, side):
    w = torch.ones(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        _, pull = torch.func.vjp(cube, w)
    with gpu.calling() as calls:
        pull(torch.ones((), device="cuda"))
    assert waits(calls) == ["wait s1 for cuda:0 (torch)", "wait cuda:0 for s1 (torch)"]
    assert gpu.codes() == []


def test_a_sparse_leaf_is_on_the_stream_of_its_first_use(gpu, side):
    w = torch.eye(3, device="cuda").to_sparse().requires_grad_()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), gpu.calling() as calls:
        torch.autograd.grad((w.to_dense() * 2).sum(), w)
    assert waits(calls) == []


def test_a_single_stream_needs_no_waits(gpu):
    w = torch.ones(3, device="cuda", requires_grad=True)
    loss = w.sin().sum()
    with gpu.calling() as calls:
        loss.backward()
    assert waits(calls) == []
    assert w.grad is not None


def test_the_first_node_waits_for_the_stream_of_the_root_gradient(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    loss = w.sin().mean()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), gpu.calling() as calls:
        loss.backward()
    assert waits(calls) == ["wait cuda:0 for s1 (torch)", "wait s1 for cuda:0 (torch)"]
    assert gpu.codes() == []


def test_a_view_as_the_root_passes_the_wait_on(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    out = w.sin().view(3, 1)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        gradient = torch.ones(3, 1, device="cuda")
        out.backward(gradient)
    assert gpu.codes() == []


def test_edges_and_batched_gradients_wait_too(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    out = w.sin() * w
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (jacobian,) = torch.autograd.grad(out, w, torch.eye(3, device="cuda"), is_grads_batched=True, retain_graph=True)
        edge = torch.autograd.graph.get_gradient_edge(out)
        torch.autograd.backward([edge], [torch.ones(3, device="cuda")])
    assert gpu.codes() == []
    assert jacobian.shape == (3, 3)


def test_a_leaf_as_the_root_waits(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    w.grad = torch.zeros(3, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        w.backward(torch.ones(3, device="cuda"))
    assert gpu.codes() == []


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_is_recomputed_on_its_stream(gpu, side, use_reentrant):
    layer = torch.nn.Linear(4, 4, device="cuda")
    x = torch.ones(2, 4, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss = checkpoint(layer, x, use_reentrant=use_reentrant).square().mean()
    torch.cuda.current_stream().wait_stream(side)
    with gpu.calling() as calls:
        loss.backward()
    matmuls = [call.split()[1] for call in calls if call.startswith("launch") and ("mm" in call or "addmm" in call)]
    assert set(matmuls) == {"s1"}
    layer.weight.grad.add_(x.grad.sum())
    assert gpu.codes() == []


def test_a_graph_of_gradients_is_on_the_stream_of_its_forward(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss = w.sin().sum()
    torch.cuda.current_stream().wait_stream(side)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    with gpu.calling() as calls:
        gradient.backward(torch.ones(3, device="cuda"))
    assert "s1" in launches(calls)
    assert gpu.codes() == []


def test_a_nested_pass_ends_with_a_join(gpu, side):
    """A node on the default stream runs a pass of its own, whose forward is on another stream."""

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            inner = torch.ones(3, device="cuda", requires_grad=True)
            side.wait_stream(torch.cuda.current_stream())
            with torch.enable_grad(), torch.cuda.stream(side):
                out = inner.sin()
            torch.cuda.current_stream().wait_stream(side)
            (made,) = torch.autograd.grad(out, inner, gradient)
            return gradient * made

    w = torch.ones(3, device="cuda", requires_grad=True)
    with gpu.calling() as calls:
        Nested.apply(w).sum().backward()
    assert waits(calls)[-1] == "wait cuda:0 for s1 (torch)"
    assert gpu.codes() == []
    assert w.grad is not None


def test_a_node_waits_for_the_streams_of_its_gradients(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    x = w.exp()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x.sin()
    torch.cuda.current_stream().wait_stream(side)
    loss = (x.cos() + y).sum()
    with gpu.calling() as calls:
        loss.backward()
    assert "wait s1 for cuda:0 (torch)" in waits(calls)
    assert "wait cuda:0 for s1 (torch)" in waits(calls)
    assert gpu.codes() == []


def test_the_callers_current_stream_is_restored(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss = w.sin().sum()
    backward = gpu.simulator.backward
    assert not backward.is_running
    seen = []
    w.register_hook(lambda gradient: seen.append(backward.is_running))
    loss.backward()
    assert seen == [True]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_an_error_ends_the_backward_pass(gpu):
    w = torch.ones(3, device="cuda", requires_grad=True)

    def fail(gradient):
        raise ZeroDivisionError

    w.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        w.sin().sum().backward()
    assert not gpu.simulator.backward.is_running


def test_gradients_that_cross_streams_are_protected(gpu, side):
    w = torch.ones(3, device="cuda", requires_grad=True)
    x = w.exp()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss = x.sin().sum()
    torch.cuda.current_stream().wait_stream(side)
    with gpu.calling() as calls:
        loss.backward()
    assert any(call.startswith("record_stream") for call in calls)


def test_a_stream_first_used_inside_a_pass_is_tracked_from_then_on(gpu, side):
    def backward():
        w = torch.ones(3, device="cuda", requires_grad=True)
        x = w.exp()

        def hook(gradient):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), torch.enable_grad():
                v = torch.ones(3, device="cuda", requires_grad=True)
                loss = v.sin().sum()
            loss.backward()
            return gradient + v.grad

        x.register_hook(hook)
        x.sin().sum().backward()

    first, again = (waits(gpu.calls_of(backward)) for _ in range(2))
    assert first == again
    assert "wait cuda:0 for s1 (torch)" in first


def test_work_of_a_hook_is_attributed_to_the_hook(gpu, side):
    shared = torch.ones(3, device="cuda")
    w = torch.ones(3, device="cuda", requires_grad=True)
    x = w.exp()

    def hook(gradient):
        with torch.cuda.stream(side):
            shared.add_(1)  # races with the first write
        return gradient * 2

    x.register_hook(hook)
    shared.add_(1)
    x.sin().sum().backward()
    gpu.simulator.flush_calls()
    (finding,) = (f for f in gpu.session.report(gpu.sites).findings if f.rule.code != "SYN802")
    assert "races with the first write" in finding.location.frame.source


def test_a_leaf_that_only_a_function_of_the_program_uses_belongs_to_the_stream_of_the_call(gpu, side):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            shared.add_(1)
            return gradient * 2

    shared = torch.ones(3, device="cuda")
    x = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        Scale.apply(x).sum().backward()  # torch joins no stream with the default stream
    shared.add_(1)
    gpu.simulator.flush_calls()
    assert "SYN103" in [finding.rule.code for finding in gpu.session.report(gpu.sites).findings]


def test_work_of_a_pass_is_attributed_to_its_backward_call(gpu, side):
    for number in range(2):
        w = torch.ones(3, device="cuda", requires_grad=True)
        x = w.exp()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.data.add_(1)
        loss = x.sum()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x.data.add_(1)
        if number:
            loss.backward()  # the second
        else:
            loss.backward()  # the first
        torch.cuda.synchronize()
    found = [f.location.frame.source for f in gpu.session.report(gpu.sites).findings if f.rule.code == "SYN101"]
    assert [sum(word in source for source in found) for word in ("the first", "the second")] == [1, 1]
