"""Clocks around models and tensors that were moved to a GPU, or to a device that may be one."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

SOURCE = """
import time
import torch
from models import load_model, tokenizer

def bench(prompt, path, rounds):
    model = load_model(path).to("cuda")
    inputs = tokenizer(prompt).to("cuda")
    {before}
    start = time.perf_counter()
    {work}
    {after}
    seconds = time.perf_counter() - start
    print(seconds)
"""


def found(source):
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [f.location.frame.line for f in result.findings if f.rule.code == "SYN701"]


def timed(work, *, before="pass", after="pass"):
    return found(SOURCE.format(work=work, before=before, after=after)) == [13]


@pytest.mark.parametrize(
    "context",
    [
        "torch.autocast(device_type='cuda')", "torch.autocast('cuda', dtype=torch.float16)",
        "torch.inference_mode(), torch.autocast(device_type=inputs.device.type)",
        "torch.amp.autocast(device_type='cuda')", "torch.profiler.record_function('on device')",
    ],
)  # fmt: skip
def test_contexts_that_get_a_device_make_no_stream_current(context):
    assert timed(f"with {context}: out = model(inputs)")
    assert timed("with ctx: out = model(inputs)", before=f"ctx = {context.rpartition('(), ')[2]}")
