"""`syncheck lint --fix` where what a fix names is None, or is not there, on another path through the program."""

import textwrap

import pytest

from tests.lint.test_fix_accounts import shown

GATHER = """
    import torch
    import torch.distributed as dist

    def backward(grad, weight, x: torch.Tensor, is_split, group):
        handle = None
        if is_split:
            total = torch.empty(4 * x.shape[0], 8, device="cuda")
            handle = dist.all_gather_into_tensor(total, x.contiguous(), group=group, async_op=True)
        else:
            total = x
        made = grad.t() @ total
        if handle is not None:
            handle.wait()
        return made
"""
SENT = """
    import torch
    import torch.distributed as dist

    def exchange(output: torch.Tensor, peer, is_reused):
        requests = {}
        if peer is not None:
            requests["send"] = dist.isend(output.contiguous(), peer)
            requests["other"] = dist.isend(output, peer)
        if is_reused:
            output.zero_()
        [request.wait() for request in requests.values()]
"""
MOVED = """
    import torch

    class Mover:
        def __init__(self, use_stream):
            self.stream = torch.cuda.Stream() if use_stream else None

        def move(self, host, weight):
            weight = weight.cuda()
            with torch.cuda.stream(self.stream):
                batch = host.to("cuda", non_blocking=True)
            return batch @ weight
"""


@pytest.fixture
def fixed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def fix(source: str) -> str:
        file = tmp_path / "m.py"
        file.write_text(textwrap.dedent(source))
        shown("fix", unsafe=True)
        return file.read_text()

    return fix


def test_a_handle_that_another_branch_lacks_is_waited_for_if_there_is_one(fixed):
    assert "    if handle is not None: handle.wait()\n    made = grad.t()" in fixed(GATHER)


def test_a_key_that_another_branch_lacks_is_not_asked_for(fixed):
    text = fixed(SENT)
    assert "requests['other'].wait()" not in text
    assert "requests.values()]\n        output.zero_()" in text


def test_a_stream_that_is_none_without_streams_is_waited_for_if_there_is_one(fixed):
    wait = "if self.stream is not None: torch.cuda.current_stream().wait_stream(self.stream)\n"
    assert wait in fixed(MOVED)


def test_a_branch_that_asks_for_a_stream_is_not_asked_again(fixed):
    source = MOVED.replace(
        "return batch", "if self.stream is not None:\n                batch = batch * 2\n            return batch"
    )
    assert "is not None:\n            torch.cuda.current_stream().wait_stream(self.stream)" in fixed(source)
