"""Files whose kernels the host waits for."""

import pytest

from syncheck.lint.blocking_kernels import waits_for_kernels


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import MinkowskiEngine as ME", True),
        ("    from MinkowskiEngine import SparseTensor", True),
        ("from pykeops.torch import LazyTensor", True),
        ("import pykeops_like", False),
        ("# pykeops", False),
        ("os.environ['CUDA_LAUNCH_BLOCKING'] = '1'", True),
        ("os.environ['CUDA_LAUNCH_BLOCKING'] = '0'", False),
        ("import torch", False),
    ],
)
def test_blocking_launches_and_libraries_that_wait(source, expected):
    assert waits_for_kernels(f"import os\n{source}\n") is expected
