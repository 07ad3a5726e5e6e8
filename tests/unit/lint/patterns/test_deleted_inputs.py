"""Tensors that a function deletes while a side stream may still read them."""

import textwrap

import pytest

from syncheck.lint.patterns import deleted_inputs
from tests.unit.lint.checking import context_of, found_by

HEAD = "import torch\ndef f(chunk, side, main, net):\n"
FIRST = HEAD.count("\n") + 1
WORK = "x = chunk.to(0)\nside.wait_stream(main)\nwith torch.cuda.stream(side):\n    y = net(x)\n"


def found(body):
    return [(code, line - FIRST) for code, line in found_by(deleted_inputs, HEAD + textwrap.indent(body, "    "))]


@pytest.mark.parametrize("after", ["del x", "z = 3\ndel x\nmain.wait_stream(side)", "del x, z"])
def test_a_deletion_before_the_join_is_reported(after):
    ((code, line),) = found(f"{WORK}{after}")
    assert (code, line) == ("SYN201", 4 + after.split("\n").index(next(s for s in after.split("\n") if "del" in s)))


@pytest.mark.parametrize(
    "body",
    [
        f"{WORK}main.wait_stream(side)\ndel x",
        f"{WORK}side.synchronize()\ndel x",
        f"{WORK}del y",
        f"{WORK}x.record_stream(side)\ndel x",
        f"{WORK}value = y.item()\ndel x",
        WORK.replace("net(x)", "net(x).cpu()") + "del x",
        WORK.replace("y = net(x)", "x = net(chunk)") + "del x",  # made on the side stream
        WORK.replace("chunk.to(0)", "torch.cuda.CUDAGraph()") + "del x",
        WORK.replace("side)", "torch.cuda.current_stream())") + "keep(x)",
        "with torch.cuda.stream(side):\n    y = net(chunk)\ndel chunk",  # its caller may hold it
    ],
)
def test_deletions_in_time_are_not_reported(body):
    assert found(body) == []


def test_the_help_protects_the_tensor():
    from syncheck.lint.source_file import SourceFile

    file = SourceFile("file.py", HEAD + textwrap.indent(f"{WORK}del x", "    "))
    (finding,) = deleted_inputs.findings(context_of(file))
    assert finding.help == "call `x.record_stream(side)` before the `del`"
