"""Work of other libraries on a stream that is given by its handle, and that never waits for what it uses."""

import textwrap

import pytest

from syncheck.lint.patterns import raw_launches
from tests.unit.lint.checking import found_by

SOURCE = """
import torch
def copy(x, rt, target, device):
    side = torch.cuda.Stream()
    {made}
    {launch}
    {after}
"""
PARTS = {
    "made": "y = x.to(torch.float16).contiguous()",
    "launch": "rt.copy(target, y.data_ptr(), side.cuda_stream)",
    "after": "side.synchronize()",
}


def found(**parts):
    return found_by(raw_launches, textwrap.dedent(SOURCE.format(**(PARTS | parts))))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"made": "y = torch.full((4,), 1.0, device=device)"},
        {"made": "y = torch.matmul(x, x)"},
        {"made": "y = x.half().permute(1, 0)"},
        {"made": "y = x.to(dtype)"},
        {"made": "y = x.float(); side.synchronize()"},
        {"made": "y = x.float(); rt.bind(y.data_ptr())", "launch": "rt.execute_async_v3(side.cuda_stream)"},
        {"made": "y = x.float(); h = side.cuda_stream", "launch": "rt.copy(target, y.data_ptr(), h)"},
        {"launch": "rt.copy(target, c_void_p(y.data_ptr()), CUstream(side.cuda_stream))"},
        {"after": "torch.cuda.current_stream().wait_stream(side)"},
    ],
)
def test_an_input_of_the_current_stream_needs_a_wait(parts):
    assert found(**parts) == [("SYN105", 6)]


@pytest.mark.parametrize(
    "parts",
    [
        {"made": "y = x.float(); side.wait_stream(torch.cuda.current_stream())"},
        {"made": "y = x.float(); torch.cuda.synchronize()"},
        {"made": "y = x.float(); print(y.sum().item())"},
        {"made": "y = torch.empty(4, device=device)"},
        {"made": "y = torch.zeros(4)"},
        {"made": "y = x.to(device)"},
        {"made": "y = x.float().cuda()"},
        {"made": "y = load(x)"},
        {"made": "y = torch.tensor([1, 2], device=device)"},
        {"made": "y = torch.from_numpy(x)"},
        {"made": "with torch.cuda.stream(side): y = x.float()"},
        {"launch": "rt.copy(target, y.data_ptr(), rt.H2D, side.cuda_stream)"},
        {"launch": "rt.copy(target, y.data_ptr(), x.cuda_stream)"},
        {"launch": "s = torch.cuda.ExternalStream(side.cuda_stream); rt.bind(y.data_ptr())"},
        {"launch": "print(y.data_ptr(), side.cuda_stream)"},
        {"after": "rt.later(side)"},
    ],
)
def test_other_launches_are_not_reported(parts):
    assert found(**parts) == []
