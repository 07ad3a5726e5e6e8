"""Scatter, gather and broadcast across several GPUs, which torch implements in C++."""

import pytest
import torch
from torch.nn.parallel import comm

from syncheck.instrument.patching import Patches
from syncheck.sim.comm import install_comm


def test_torchs_own_functions_are_restored(gpus):
    patches, own = Patches(), torch._C._gather
    install_comm(gpus.runtime, patches)
    assert torch._C._gather != own
    patches.undo()
    assert torch._C._gather == own


def test_a_tensor_is_broadcast(gpus):
    source = torch.ones(3, device="cuda:0")
    first, second = comm.broadcast(source, [0, 1])
    assert first is source
    assert (second.device.index, second.tolist()) == (1, [1, 1, 1])
    copies = comm.broadcast_coalesced([source] * 2, [0, 1])
    assert [[tensor.device.index for tensor in row] for row in copies] == [[0, 0], [1, 1]]


def launched(calls):
    return [call.removeprefix("launch ") for call in calls if call.startswith(("launch", "wait"))]


def test_coalesced_tensors_are_flattened_by_the_source(gpus):
    sources = [torch.ones(n, device="cuda:0") for n in (3, 2)]
    calls = launched(gpus.calls_of(lambda: comm.broadcast_coalesced(sources, [0, 1])))
    assert calls[0].startswith("cuda:0 cat r")  # before the source waits for the stream of the target
    assert [call.split()[1] for call in calls].count("copy_") == 1


def test_a_chunk_of_one_tensor_is_not_flattened(gpus):
    sources = [torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:0", dtype=torch.int64)]
    for buffer_size in (1 << 20, 1):
        calls = launched(gpus.calls_of(lambda: comm.broadcast_coalesced(sources, [0, 1], buffer_size)))  # noqa: B023  called at once
        assert not any("cat" in call for call in calls)


def test_coalesced_tensors_of_several_types_keep_their_order_and_layout(gpus):
    sources = [
        torch.ones(2, 3, device="cuda:0"),
        torch.arange(3, device="cuda:0"),
        torch.full((), 5.0, device="cuda:0"),
        torch.eye(2, device="cuda:0").to_sparse(),
        torch.eye(3, device="cuda:0").to_sparse(),
    ]
    own, copies = comm.broadcast_coalesced(sources, [0, 1])
    assert [one is other for one, other in zip(own, sources, strict=True)] == [True] * 5
    assert all(copy.device.index == 1 for copy in copies)
    for copy, source in zip(copies, sources, strict=True):
        assert (copy.shape, copy.dtype, copy.layout) == (source.shape, source.dtype, source.layout)
        assert copy.to_dense().tolist() == source.to_dense().tolist()
    copies[0].add_(1)
    assert copies[2].item() == 5
    assert (copies[0]._version, copies[2]._version) == (1, 0)


def test_coalesced_copies_do_not_require_gradients(gpus):
    weight = torch.ones(1, device="cuda:0", requires_grad=True)
    (retained,), (copy,) = comm.broadcast_coalesced([weight], [0, 1])
    assert retained is weight
    assert not copy.requires_grad


def test_a_tensor_is_scattered_and_gathered(gpus):
    x = torch.arange(6.0, device="cuda:0")
    parts = comm.scatter(x, [0, 1], chunk_sizes=[2, 4])
    assert [(part.device.index, part.tolist()) for part in parts] == [(0, [0, 1]), (1, [2, 3, 4, 5])]
    assert [len(part) for part in comm.scatter(x, [0, 1])] == [3, 3]
    whole = comm.gather(parts, destination=1)
    assert (whole.device.index, whole.tolist()) == (1, x.tolist())


def test_a_part_for_the_tensors_own_device_is_a_view(gpus):
    x = torch.arange(6.0, device="cuda:1")
    parts = comm.scatter(x, [0, 1], streams=[None, torch.cuda.Stream(device=0)])  # not checked: nothing is copied
    assert parts[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_existing_tensors_are_filled(gpus):
    out = [torch.zeros(3, device=f"cuda:{index}") for index in (0, 1)]
    comm.scatter(torch.arange(6.0, device="cuda:0"), out=out)
    assert out[1].tolist() == [3, 4, 5]
    comm.broadcast(torch.ones(3, device="cuda:0"), out=out)
    assert out[1].tolist() == [1, 1, 1]


def test_parts_are_copied_on_the_given_streams(gpus):
    x, streams = torch.arange(4.0), [None, torch.cuda.Stream(device=1)]
    made = gpus.calls_of(lambda: comm.scatter(x, [0, 1], streams=streams))
    assert [call for call in made if call.startswith("launch")] == ["launch cuda:0 copy_ w1", "launch s1 copy_ w2"]


def test_a_gather_to_the_host_waits_for_its_copies(gpus):
    parts = [torch.ones(2, device=f"cuda:{index}") for index in (0, 1)]
    whole = comm.gather(parts, destination=torch.device("cpu"))
    assert whole.tolist() == [1, 1, 1, 1]
    assert gpus.codes() == []


def test_the_memory_format_of_images_is_kept(gpus):
    images = torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    parts = comm.scatter(images, [0, 1])
    whole = comm.gather(parts)
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in (*parts, whole))
    mixed = comm.gather([parts[0], parts[1].contiguous()])
    assert mixed.is_contiguous()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            lambda x, y: comm.broadcast(x, out=[x, y.cpu()]),
            "Expected all output tensors to be CUDA .* index 1 has .*cpu",
        ),
        (lambda x, y: comm.broadcast(x, out=[x[None]]), r"same shape as the source tensor \[2, 3\], .* \[1, 2, 3\]"),
        (lambda x, y: comm.broadcast(x, [-1]), "Expected non-negative device index, but got -1"),
        (lambda x, y: comm.broadcast_coalesced([x, y], [0, 1]), r"All tensors must be on devices\[0\]: 0"),
        (lambda x, y: comm.scatter(x, []), "Expected at least one device to scatter to"),
        (lambda x, y: comm.scatter(x, [0], [1, 1]), r"same length, but got len\(devices\) = 1 and .* = 2"),
        (lambda x, y: comm.scatter(x, out=[]), "Expected at least one output tensor to scatter to"),
        (lambda x, y: comm.scatter(x, out=[x.cpu()]), "output tensor at index 0 has device 'cpu'"),
        (lambda x, y: comm.scatter(x, out=[x[:, :1]]), "index 0 has incorrect shape: .* except for scatter dim 0"),
        (lambda x, y: comm.scatter(x, out=[x[:1]]), "along scatter dim 0 does not match .* Expected 2, but got .* 1"),
        (lambda x, y: comm.gather([]), "Expected at least one tensor to gather from"),
        (lambda x, y: comm.gather([x, y.cpu()]), "tensor at index 1 has device cpu"),
        (lambda x, y: comm.gather([x, y[None]]), r"same number of dimensions, .* \(expected 2\)"),
        (lambda x, y: comm.gather([x, y[:, 1:]]), r"index 1 has invalid shape \[2, 2\], but expected \[2, 3\]"),
        (lambda x, y: comm.gather([x, y], out=torch.empty_like(x)), r"out tensor to have shape \[4, 3\], but got"),
    ],
)
def test_invalid_arguments_raise_torchs_errors(gpus, call, error):
    x, y = (torch.ones(2, 3, device=f"cuda:{index}") for index in (0, 1))
    with pytest.raises(RuntimeError, match=error):
        call(x, y)


def test_a_stream_of_another_device_is_rejected(gpus):
    x, wrong = torch.ones(2), [None, torch.cuda.Stream(device=0)]
    with pytest.raises(RuntimeError, match=r"stream at index 1 \(was 0\) to match .* \(expected 1\)"):
        comm.scatter(x, [0, 1], streams=wrong)
    with pytest.raises(RuntimeError, match=r"stream at index 1 \(was 0\) to match .* \(expected 1\)"):
        comm.scatter(x, out=[torch.ones(1, device=f"cuda:{index}") for index in (0, 1)], streams=wrong)
