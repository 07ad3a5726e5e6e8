"""What torch does in C++ over several GPUs."""

import torch
from torch.nn.parallel import comm


def test_a_tensor_is_broadcast(gpus):
    first, second = comm.broadcast(torch.ones(3, device="cuda:0"), [0, 1])
    assert [first.device.index, second.device.index] == [0, 1]
    assert second.tolist() == [1, 1, 1]
    copies = comm.broadcast_coalesced([torch.ones(1, device="cuda:0")] * 2, [0, 1])
    assert [[tensor.device.index for tensor in row] for row in copies] == [[0, 0], [1, 1]]


def test_a_tensor_is_scattered_and_gathered(gpus):
    x = torch.arange(6.0, device="cuda:0")
    parts = comm.scatter(x, [0, 1], chunk_sizes=[2, 4])
    assert [(part.device.index, part.tolist()) for part in parts] == [(0, [0, 1]), (1, [2, 3, 4, 5])]
    assert [len(part) for part in comm.scatter(x, [0, 1])] == [3, 3]
    whole = comm.gather(parts, destination=1)
    assert (whole.device.index, whole.tolist()) == (1, x.tolist())


def test_existing_tensors_are_filled(gpus):
    out = [torch.zeros(3, device=f"cuda:{index}") for index in (0, 1)]
    comm.scatter(torch.arange(6.0, device="cuda:0"), out=out)
    assert out[1].tolist() == [3, 4, 5]
    comm.broadcast(torch.ones(3, device="cuda:0"), out=out)
    assert out[1].tolist() == [1, 1, 1]


def test_parts_go_by_the_streams_that_are_given(gpus):
    x, streams = torch.arange(4.0, device="cuda:0"), [None, torch.cuda.Stream(device=0)]
    made = gpus.calls_of(lambda: comm.scatter(x, [0, 1], streams=streams))
    assert any(call.startswith("launch s1 copy_") for call in made)


def test_tensors_are_grouped_by_device_and_type(gpus):
    tensors = [torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1"), torch.ones(1, device="cuda:0").half()]
    tensors.append(torch.ones(1, device="cuda:1"))
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([tensors], with_indices=True)
    assert {(key[0].index, str(key[1])): positions for key, (_, positions) in groups.items()} == {
        (0, "torch.float32"): [0], (1, "torch.float32"): [1, 3], (0, "torch.float16"): [2],
    }  # fmt: skip
