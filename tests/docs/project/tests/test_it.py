import torch


def test_a_sum():
    assert torch.ones(4, device="cuda").sum().item() == 4
