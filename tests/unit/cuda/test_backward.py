"""Attribution of backward passes to the program's call sites."""

import pytest
import torch
from torch.utils import checkpoint

from syncheck.cuda.backward import install_backward
from syncheck.instrument.patching import Patches


@pytest.fixture
def watched(gpu):
    cuda, patches = gpu.cuda, Patches()
    parts = (cuda.reporter, cuda.streams, cuda.memory, cuda.host, cuda.launches, cuda.gpu_trace)
    install_backward(*parts, patches)
    yield gpu
    patches.undo()


def test_autograd_operators_are_attributed_to_the_programs_backward_call(watched):
    x = torch.ones(3, requires_grad=True)
    loss = x.sin().sum()
    watched.cuda.flush_calls()
    watched.monitor.calls.clear()
    loss.backward()
    sites = {call[4] for call in watched.monitor.named("launch")}
    assert {watched.cuda.reporter.sites.location(site).frame.source.strip() for site in sites} == {"loss.backward()"}
    assert watched.cuda.reporter.backward_site == 0


def test_a_nested_backward_pass_is_attributed_to_the_outer_one(watched):
    seen, reporter = [], watched.cuda.reporter

    def nested(gradient):
        y = torch.ones(3, requires_grad=True)
        with torch.enable_grad():
            y.sin().sum().backward()
        seen.append(reporter.sites.location(reporter.backward_site).frame.source.strip())

    x = torch.ones(3, requires_grad=True)
    x.register_hook(nested)
    x.sin().sum().backward()
    assert seen == ["x.sin().sum().backward()"]


def test_an_error_ends_the_backward_pass(watched):
    def fail(gradient):
        raise ZeroDivisionError

    x = torch.ones(3, requires_grad=True)
    x.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        x.sin().sum().backward()
    assert watched.cuda.reporter.backward_site == 0


def test_checkpoint_early_stop_is_disabled_while_watched(gpu):
    before, patches = checkpoint._enable_checkpoint_early_stop, Patches()
    cuda = gpu.cuda
    parts = (cuda.reporter, cuda.streams, cuda.memory, cuda.host, cuda.launches, cuda.gpu_trace)
    install_backward(*parts, patches)
    assert checkpoint._enable_checkpoint_early_stop is False
    patches.undo()
    assert checkpoint._enable_checkpoint_early_stop is before
