"""What the simulator reports of operators of torch that are easily taken for something else."""

import pytest
import torch

import syncheck


@pytest.fixture
def check():
    """Return a function that runs a program on simulated GPUs and returns the codes of errors and warnings."""

    def run(program):
        with syncheck.check(backend="sim") as report:
            program()
        assert report.incomplete == ()
        return [finding.rule.code for finding in report.findings if finding.level != "advice"]

    return run


def normalize_on_two_streams(*, training):
    layer = torch.nn.BatchNorm1d(3, device="cuda").train(training)
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    x = torch.ones(4, 3, device="cuda")
    side.wait_stream(main)
    layer(x)
    with torch.cuda.stream(side):
        layer(x)
    main.wait_stream(side)


def test_batch_norm_only_reads_its_statistics_in_evaluation_mode(check):
    assert check(lambda: normalize_on_two_streams(training=False)) == []


def test_batch_norm_writes_its_statistics_in_training_mode(check):
    assert "SYN103" in check(lambda: normalize_on_two_streams(training=True))


def offload_gradients(parameter, side, *, records):
    """Copy a gradient to the host in a hook, on a stream of its own, and let go of it."""

    def hook(taken):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host = taken.grad.to("cpu", non_blocking=True)
        if records:
            taken.grad.record_stream(side)
        taken.grad = None
        kept.append(host)

    kept = []
    parameter.register_post_accumulate_grad_hook(hook)


@pytest.mark.parametrize("records", [False, True])
def test_a_gradient_that_a_hook_reads_on_a_side_stream_is_not_protected(check, records):
    def program():
        weight = torch.ones(1 << 19, device="cuda", requires_grad=True)
        offload_gradients(weight, torch.cuda.Stream(), records=records)
        for _ in range(2):
            (weight * 2).sum().backward()
        torch.cuda.synchronize()

    assert check(program) == ([] if records else ["SYN201"])


def test_a_gradient_that_a_tensor_hook_reads_on_a_side_stream_is_not_protected(check):
    def program():
        side, norms = torch.cuda.Stream(), []

        def hook(gradient):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                norms.append(gradient.norm())

        x = torch.ones(1 << 19, device="cuda", requires_grad=True)
        for _ in range(2):
            y = x * 2
            y.register_hook(hook)
            (y * 3).sum().backward()
            x.grad = None
        torch.cuda.synchronize()

    assert check(program) == ["SYN201"]
