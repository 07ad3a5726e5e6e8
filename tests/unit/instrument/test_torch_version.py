"""Supported versions of torch."""

import pytest
import torch

from syncheck.errors import BackendError
from syncheck.instrument.torch_version import OLDEST_TORCH, check_torch


@pytest.mark.parametrize("version", ["2.8.0", "2.10.1+cu128", "3.0", "2.9.0a0+git123"])
def test_new_versions_are_accepted(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    assert check_torch() == version


@pytest.mark.parametrize("version", ["2.7.1", "1.13.0+cpu"])
def test_old_versions_are_rejected_with_a_hint(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(BackendError, match="too old") as error:
        check_torch()
    assert "pip install" in error.value.hint
    assert OLDEST_TORCH == (2, 8)
