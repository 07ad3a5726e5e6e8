"""Storages on virtual devices."""

import copy
import io

import pytest
import torch


def test_a_storage_is_on_the_device_of_its_tensor(gpus):
    storage = torch.ones(3, device="cuda:1").untyped_storage()
    assert (storage.device, storage.is_cuda, storage.get_device()) == (torch.device("cuda", 1), True, 1)
    plain = torch.ones(3).untyped_storage()
    assert (plain.device.type, plain.is_cuda, plain.get_device()) == ("cpu", False, -1)


def test_a_storage_can_be_moved(gpus):
    storage = torch.ones(3, device="cuda:0").untyped_storage()
    assert storage.to(device="cuda:1").device.index == 1
    assert storage.cuda(1).device.index == 1
    assert storage.cpu().device.type == "cpu"
    assert storage.cuda(0) is storage


def test_a_storage_is_copied_on_its_device(gpu):
    x = torch.ones(3, device="cuda")
    assert x.untyped_storage().clone().is_cuda
    y, z = copy.deepcopy([x, x[1:]])
    assert y.is_cuda
    assert y.untyped_storage().data_ptr() == z.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_a_storage_can_be_pinned(gpu):
    storage = torch.ones(3).untyped_storage()
    assert not storage.is_pinned()
    assert storage.pin_memory().is_pinned()


def test_a_resized_storage_is_a_new_allocation(gpu):
    x = torch.ones(3, device="cuda")
    assert gpu.calls_of(lambda: x.untyped_storage().resize_(0))[:2] == ["free 1", "allocate 2 on cuda:0"]


def test_a_storage_is_created_on_a_device(gpus):
    assert torch.UntypedStorage(8, device="cuda:1").device.index == 1
    assert torch.UntypedStorage(8).device.type == "cpu"


def test_tensors_are_saved_and_loaded(gpus):
    file = io.BytesIO()
    torch.save({"x": torch.arange(3, device="cuda:1")}, file)
    file.seek(0)
    loaded = torch.load(file)["x"]
    assert (loaded.device.index, loaded.tolist()) == (1, [0, 1, 2])
    file.seek(0)
    assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"


def test_a_storage_without_data_is_not_copied(gpu):
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        torch.ones(2, device="meta").untyped_storage().cpu()


def test_the_memory_of_a_gpu_is_shared(gpu):
    layer = torch.nn.Linear(2, 2).share_memory().cuda().share_memory()
    assert layer.weight.is_shared()
    assert layer.weight.untyped_storage().is_shared()
    assert not torch.ones(2).is_shared()
