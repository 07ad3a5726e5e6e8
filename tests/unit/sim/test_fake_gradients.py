"""Fake GPU tensors that require a gradient."""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.sim import fake_gradients
from syncheck.sim.errors import NotSimulatedError

REFUSED = str(fake_gradients._unsupported_gradient()).partition(" is not")[0]


def test_a_fake_gpu_tensor_may_not_require_a_gradient(gpu):
    with FakeTensorMode():
        x = torch.ones(2, device="cuda")
        for require in (x.requires_grad_, lambda: setattr(x, "requires_grad", True), lambda: torch.nn.Parameter(x)):
            with pytest.raises(NotSimulatedError, match=re.escape(REFUSED)):
                require()
