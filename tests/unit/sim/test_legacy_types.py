"""Legacy tensor types."""

import pytest
import torch


def test_legacy_types_create_tensors_on_the_current_gpu(gpus):
    torch.cuda.set_device(1)
    x = torch.cuda.FloatTensor([1.0, 2.0])
    assert (x.device, x.dtype, x.tolist()) == (torch.device("cuda", 1), torch.float32, [1, 2])
    assert torch.FloatTensor([1.0]).device.type == "cpu"
    assert torch.cuda.LongTensor(3).shape == (3,)
    for device, index in ((0, 0), ("cuda:0", 0), (None, 1)):
        assert torch.cuda.FloatTensor(1, device=device).device.index == index


def test_legacy_types_recognize_tensors(gpu):
    x = torch.ones(2, device="cuda", dtype=torch.float16)
    assert isinstance(x, torch.cuda.HalfTensor)
    assert not isinstance(x, torch.HalfTensor)
    assert not isinstance(x, torch.cuda.FloatTensor)
    assert isinstance(torch.ones(2), torch.FloatTensor)


def test_a_tensor_reports_its_legacy_type(gpu):
    x = torch.ones(2, device="cuda")
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.cpu().type() == "torch.FloatTensor"


@pytest.mark.parametrize(
    ("kind", "device", "dtype"),
    [
        ("torch.cuda.HalfTensor", "cuda", torch.float16), ("torch.LongTensor", "cpu", torch.int64),
        (torch.float64, "cuda", torch.float64),
    ],
)  # fmt: skip
def test_a_tensor_is_converted_to_a_type(gpu, kind, device, dtype):
    made = torch.ones(2, device="cuda").type(kind)
    assert (made.device.type, made.dtype) == (device, dtype)


def test_a_conversion_keeps_the_gpu_of_the_tensor(gpus):
    assert torch.ones(2, device="cuda:1").type("torch.cuda.HalfTensor").device == torch.device("cuda", 1)


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_default_type_sets_dtype_and_device(gpu):
    try:
        torch.set_default_tensor_type(torch.cuda.DoubleTensor)
        x = torch.ones(2)
        assert (x.device.type, x.dtype) == ("cuda", torch.float64)
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert (torch.ones(2).device.type, torch.ones(2).dtype) == ("cpu", torch.float32)
