"""Calls for the current device where several devices are used in turn."""

import textwrap

import pytest

from syncheck.lint.patterns import devices_in_turn
from tests.unit.lint.checking import found_by

HEAD = "import torch\ndef f(self, devices, models, batches, streams):\n"
FIRST = HEAD.count("\n") + 1


def found(body):
    return [(code, line - FIRST) for code, line in found_by(devices_in_turn, HEAD + textwrap.indent(body, "    "))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "for i, b in batches:\n    x = b.to(devices[i % 2])\n    done = torch.cuda.Event()\n    done.record()",
            ("SYN105", 3),
        ),
        (
            "for i, b in batches:\n    r = self.replicas[i % 2]\n    y = r(b.to(r.device))\n    self.done[i].record()",
            ("SYN105", 3),
        ),
        (
            "for device, m in models.items():\n    s = streams[device]\n    now = torch.cuda.current_stream()\n"
            "    s.wait_stream(now)\n    with torch.cuda.stream(s):\n        m(1)",
            ("SYN105", 2),
        ),
        (
            "for i, b in batches:\n    host[i].copy_(m(b.to(devices[i])))\ntorch.cuda.synchronize()\nhost.numpy()",
            ("SYN502", 2),
        ),
        (
            "torch.cuda.synchronize(self.a)\ntorch.cuda.synchronize(self.b)\ny.copy_(x)\ntorch.cuda.synchronize()",
            ("SYN502", 3),
        ),
    ],
)
def test_calls_for_the_current_device_are_reported(body, expected):
    assert found(body) == [expected]


@pytest.mark.parametrize(
    "body",
    [
        "for p, g in grads:\n    x.to(g.device)\n    n = g.numel()\n    s.wait_stream(torch.cuda.current_stream())",
        "for b in bs:\n    e = b['e']\n    e = e.to(dtype)\n    m = mask.to(e.device)\n    torch.cuda.current_stream()",
        "for b in bs:\n    e = b['e']\n    m = mask.to(e.device)\n    y = e[:, 1:]\n    torch.cuda.current_stream()",
        "for i, b in batches:\n    torch.cuda.set_device(devices[i])\n    x = b.to(devices[i])\n    e.record()",
        "for i, b in batches:\n    with torch.cuda.device(i):\n        x = b.to(devices[i])\n        e.record()",
        "for i, b in batches:\n    x = b.to(devices[i])\n    e.record(torch.cuda.current_stream(devices[i]))",
        "for b in batches:\n    x = b.to(self.device)\n    e.record()",
        "for i, b in batches:\n    e.record()\n    x = b.to(devices[i])",
        "for device, m in models.items():\n    with torch.cuda.stream(streams[device]):\n        e.record()",
        "for device, m in models:\n    s = streams[device]\n    s.wait_stream(torch.cuda.current_stream(device))",
        "for i, b in batches:\n    y = m(b.to(devices[i]))\ntorch.cuda.synchronize()",  # the host reads nothing
        "torch.cuda.synchronize(self.a)\ny.copy_(x)\ntorch.cuda.synchronize()",
        "torch.cuda.synchronize(a)\ntorch.cuda.synchronize(b)\nwith torch.cuda.device(a): torch.cuda.synchronize()",
    ],
)
def test_named_and_single_devices_are_not_reported(body):
    assert found(body) == []
