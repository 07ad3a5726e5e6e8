"""The simulator as a whole."""

import pytest
import torch


def test_all_parts_share_one_runtime(gpus):
    simulator = gpus.simulator
    assert simulator.thread_state() is gpus.runtime.gpus.thread
    assert simulator.is_checking
    simulator.is_checking = False
    assert not gpus.runtime.is_checking


def test_gpus_are_visible_within_the_block_only(gpu):
    before = torch.Tensor.to
    assert torch.cuda.device_count() == 1
    assert torch.ones(2, device="cuda").is_cuda
    assert torch.Tensor.to is before


def test_a_custom_function_runs_backward_on_its_device(gpus):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(3, device="cuda:1", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.device == torch.device("cuda", 1)
    assert x.grad.tolist() == [2, 2, 2]


def test_finish_verifies_exported_buffers(gpu):
    h = torch.ones(4).pin_memory()
    view = h.numpy()
    torch.empty(4, device="cuda").copy_(h, non_blocking=True)
    view[0] = 9
    gpu.simulator.finish()
    assert not gpu.simulator.is_checking
    assert gpu.codes() == ["SYN302"]
    gpu.simulator.finish()


def test_patches_survive_an_error_in_an_unmonitored_block(gpu):
    with pytest.raises(ZeroDivisionError), gpu.runtime.unmonitored():
        raise ZeroDivisionError
    assert torch.ones(1, device="cuda").is_cuda
