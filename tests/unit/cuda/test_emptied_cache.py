"""`empty_cache()` of torch.cuda and torch.accelerator."""

import pytest
import torch

from syncheck.cuda.emptied_cache import install_emptied_cache
from syncheck.instrument.patching import Patches


@pytest.mark.parametrize("module", [torch.cuda, torch.cuda.memory, torch.accelerator, torch.accelerator.memory])
def test_empty_cache_is_reported_from_every_module(gpu, module, monkeypatch):
    monkeypatch.setattr(torch._C, "_accelerator_isAllocatorInitialized", lambda: False)
    patches, original = Patches(), module.empty_cache
    install_emptied_cache(gpu.cuda.reporter, patches)
    module.empty_cache()
    assert len(gpu.monitor.named("empty_cache")) == 1
    gpu.cuda.reporter.is_checking = False
    module.empty_cache()
    assert len(gpu.monitor.named("empty_cache")) == 1
    patches.undo()
    assert module.empty_cache is original
