"""Parts of torch.distributed, if available."""

from importlib.util import module_from_spec, spec_from_file_location

import pytest
import torch

from syncheck.instrument import c10d


def imported_again():
    spec = spec_from_file_location("c10d_of_a_test", c10d.__file__)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_the_parts_are_torchs_own():
    assert c10d.c10d is torch.distributed.distributed_c10d
    assert c10d.ProcessGroup is torch.distributed.ProcessGroup
    assert c10d.Work is torch.distributed.Work


def test_a_build_without_torch_distributed_has_no_parts(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    module = imported_again()
    assert (module.ProcessGroup, module.Work, module.c10d) == (None, None, None)
