"""The fixtures of each rule have the same findings when rewritten for `torch.xpu`."""

import re
from pathlib import Path

import markers
import pytest
import simulated
import torch

FIXTURES = [path for path in markers.fixtures() if path.name in {"bad.py", "good.py"}]
MISSING = re.compile(r"default_stream|_sleep|ExternalStream" + ("" if hasattr(torch.xpu, "XPUGraph") else "|[gG]raph"))
"""Functions that `torch.xpu` lacks; only newer versions of torch have graphs there."""
NAMES = [
    ("torch.cuda", "torch.xpu"), ('"cuda', '"xpu'), ("'cuda", "'xpu"), (".cuda(", ".xpu("), ("is_cuda", "is_xpu"),
    ('"nccl"', '"xccl"'), (".CUDAGraph", ".XPUGraph"),
]  # fmt: skip


@pytest.fixture(scope="module")
def runner():
    started = simulated.Runner("sim", "xpu")
    yield started
    started.close()


def for_xpu(text):
    for old, new in NAMES:
        text = text.replace(old, new)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.relative_to(markers.ROOT).as_posix())
def test_the_findings_are_the_same_on_xpus(path: Path, runner: simulated.Runner, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if MISSING.search(text):
        pytest.skip("torch.xpu has no such function")
    program = tmp_path / path.name
    program.write_text(for_xpu(text), encoding="utf-8")
    wrong = simulated.problems(markers.read(program), runner.outcome(program))
    assert not wrong, "\n".join([str(path), *wrong])
