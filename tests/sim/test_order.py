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
