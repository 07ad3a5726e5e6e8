"""Findings reworded for device types other than CUDA."""

import pytest

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Location
from syncheck.rules import unordered_read
from syncheck.sanitizer.device_names import for_device_type

FRAME = Frame("train.py", 3)
FINDING = Finding(
    rule=unordered_read.RULE,
    location=Location(FRAME),
    message="the default stream of cuda:0 reads `cuda_x`",
    help="add `torch.cuda.current_stream().wait_stream(side)`",
    related=(Location(FRAME, "stream `side` (cuda:1) wrote it here"),),
    fix=Fix(
        (Edit(EditKind.INSERT_BEFORE, "train.py", 3, 1, "torch.cuda.synchronize()", ""),),
        Applicability.SAFE,
    ),
)


def test_a_finding_for_cuda_is_unchanged():
    assert for_device_type("cuda", FINDING) is FINDING


@pytest.mark.parametrize("name", ["xpu", "accelerator"])
def test_all_texts_and_the_fix_use_the_device_type(name):
    found = for_device_type(name, FINDING)
    assert found.message == f"the default stream of {name}:0 reads `cuda_x`"
    assert found.help == f"add `torch.{name}.current_stream().wait_stream(side)`"
    assert found.related[0].message == f"stream `side` ({name}:1) wrote it here"
    assert found.fix.edits[0].code == f"torch.{name}.synchronize()"
    assert (found.rule, found.count, found.fix.applicability) == (FINDING.rule, FINDING.count, Applicability.SAFE)
