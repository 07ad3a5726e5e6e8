"""Queries of the foreach optimizers about tensors on several GPUs."""

import torch


def test_tensors_are_grouped_by_device_and_dtype(gpus):
    tensors = [torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1"), torch.ones(1, device="cuda:0").half()]
    tensors.append(torch.ones(1, device="cuda:1"))
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([tensors], with_indices=True)
    assert {(key[0].index, str(key[1])): positions for key, (_, positions) in groups.items()} == {
        (0, "torch.float32"): [0], (1, "torch.float32"): [1, 3], (0, "torch.float16"): [2],
    }  # fmt: skip
