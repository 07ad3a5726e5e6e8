"""Programs for other accelerators with an API like `torch.cuda`: findings and fixes use their modules."""

import ast

import pytest

from syncheck.findings import Applicability
from syncheck.lint.engine import lint_data

PROGRAM = """
import torch

host = [torch.full((1024,), float(i)).pin_memory() for i in range(4)]
side = torch.{module}.Stream()

for batch in host:
    with torch.{module}.stream(side):
        x = batch.to("{name}", non_blocking=True)
    loss = (x * 2).sum()
print(loss.item())
"""


def findings_in(text):
    return lint_data("train.py", text.encode()).findings


@pytest.mark.parametrize("name", ["xpu", "npu", "hpu", "musa"])
def test_advice_can_be_pasted(name):
    found = findings_in(PROGRAM.format(module=name, name=name))
    assert [finding.rule.code for finding in found] == ["SYN101", "SYN201"]
    texts = [text for f in found for text in (f.message, f.help, *(location.message for location in f.related))]
    assert not [text for text in texts if "cuda" in text]
    assert f"the default stream of {name}:0" in found[0].message
    fixes = [finding.fix for finding in found]
    assert [fix.applicability for fix in fixes] == [Applicability.SAFE] * 2
    assert [edit.code for fix in fixes for edit in fix.edits] == [
        f"torch.{name}.current_stream().wait_stream(side)",
        f"x.record_stream(torch.{name}.current_stream())",
    ]


def test_a_fixed_program_has_no_findings():
    lines = PROGRAM.format(module="xpu", name="xpu").splitlines()
    at = lines.index("    loss = (x * 2).sum()")
    lines[at:at] = [
        "    torch.xpu.current_stream().wait_stream(side)",
        "    x.record_stream(torch.xpu.current_stream())",
    ]
    assert findings_in("\n".join(lines)) == ()


def test_a_program_for_two_device_types_gets_advice_for_cuda():
    text = PROGRAM.format(module="xpu", name="xpu") + 'if torch.cuda.is_available():\n    print("cuda")\n'
    assert "torch.cuda.current_stream()" in findings_in(text)[0].help


def test_advice_does_not_use_a_default_stream_that_the_module_lacks():
    text = """
import torch

side = torch.xpu.Stream()
x = torch.ones(1024, device="xpu")
with torch.xpu.stream(side):
    y = x * 2
"""
    (finding,) = findings_in(text)
    for edit in finding.fix.edits:
        ast.parse(edit.code)
        assert "default_stream" not in edit.code


def test_the_device_independent_api_is_supported():
    text = PROGRAM.format(module="accelerator", name="accelerator").replace(
        "torch.accelerator.Stream()", "torch.Stream()"
    )  # fmt: skip
    text = text.replace("with torch.accelerator.stream(side):", "with side:")
    text = text.replace('batch.to("accelerator"', "batch.to(torch.accelerator.current_accelerator()")
    found = findings_in(text)
    assert {finding.rule.code for finding in found} <= {"SYN101", "SYN201"}
    assert not [finding for finding in found if "torch.cuda" in finding.help]
    assert any("torch.accelerator.current_stream()" in finding.help for finding in found)


def test_pattern_rules_name_the_device_module():
    text = "import torch\n\nfor x in data:\n    step(x.to('xpu')).backward()\n    torch.xpu.empty_cache()\n"
    (finding,) = [finding for finding in findings_in(text) if finding.rule.code == "SYN807"]
    assert "torch.xpu.empty_cache()" in finding.message


def test_findings_of_all_checks_name_the_device_type_of_the_file():
    source = """
import time
import torch

def bench(model, x, n):
    model, x = model.to("xpu"), torch.randn(8, device="xpu")
    y = x @ x
    start = time.perf_counter()
    y = y @ x
    torch.xpu.synchronize()
    print(time.perf_counter() - start)

class Loader:
    def __init__(self):
        self.side = torch.xpu.Stream()

    def forward(self, x):
        x = self.norm(x)
        with torch.xpu.stream(self.side):
            y = self.gate(x)
        torch.xpu.current_stream().wait_stream(self.side)
        return x + y
"""
    found = lint_data("m.py", source.encode()).findings
    assert {"SYN701", "SYN105"} <= {finding.rule.code for finding in found}
    assert not any("cuda" in finding.help + finding.message for finding in found)
