"""Results of collectives that a block of code reads before any wait."""

import textwrap

import pytest

from syncheck.lint.patterns import pending_reads
from tests.unit.lint.checking import found_by

PROGRAM = """
import torch.distributed as dist


def unscale(found, others, group):
    futures = []
    for value in found.values():
        on_gpu = value.cuda()
        {start}
        {between}
        {read}
    for future in futures:
        future.wait()
"""
START = "futures.append(dist.all_reduce(on_gpu, async_op=True, group=group).get_future())"
READ = "value.copy_(on_gpu.cpu())"


def found(start=START, read=READ, between="pass"):
    return found_by(pending_reads, textwrap.dedent(PROGRAM).format(start=start, read=read, between=between))


@pytest.mark.parametrize(
    ("start", "read"),
    [
        (START, READ),
        (START, "total = on_gpu.sum()"),
        (START, "total = on_gpu.detach() / 8"),
        (START, "others.append(on_gpu * 2)"),
        ("futures.append(dist.irecv(on_gpu, 1))", "print(on_gpu.item())"),
        ("futures.append(dist.all_gather_into_tensor(on_gpu, value, async_op=True))", READ),
    ],
)
def test_a_read_after_the_start_is_reported(start, read):
    assert found(start, read) == [("SYN601", 11)]
    assert found(start, read, between="futures.append(None)") == [("SYN601", 11)]


@pytest.mark.parametrize(
    "given",
    [
        {"between": "futures[-1].wait()"},
        {"between": "on_gpu = value"},
        {"between": "finish(futures)"},
        {"between": "if found: futures[-1].wait()"},
        {"read": "others.append(on_gpu)"},
        {"read": "n = on_gpu.numel() * 2"},
        {"read": "others.append(lambda: on_gpu.item())"},
        {"read": "value.sum()"},
        {"start": "dist.all_reduce(on_gpu, async_op=True).wait()"},
        {"start": "dist.all_reduce(on_gpu)"},
        {"start": "futures.append(dist.isend(on_gpu, 1))"},
        {"start": "futures.append(dist.all_gather_into_tensor(value, on_gpu, async_op=True))"},
    ],
)
def test_other_uses_are_not_reported(given):
    assert found(**given) == []
