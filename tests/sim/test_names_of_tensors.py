"""Names of tensors in findings of a run."""

import json

from tests import warm

HEAD = "import torch\nside = torch.cuda.Stream()\n"
PARAMETER = """
def double(x):
    with torch.cuda.stream(side):
        return x * 2

def make():
    return torch.ones(4, device="cuda")

total = double(make()) + 1
torch.cuda.synchronize()
"""
TEMPORARY = """
class Offload(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.empty(4, pin_memory=True).copy_(x, non_blocking=True)
        return x.clone()

x = torch.ones(4, device="cuda")
loss = Offload.apply(x * 2).relu().sum()
torch.cuda.synchronize()
"""


def findings(folder, program):
    (folder / "train.py").write_text(HEAD + program)
    output = ("--output-format", "json", "--output", "report.json")
    warm.run("syncheck", "run", "--backend", "sim", *output, "train.py", folder=folder)
    return {found["rule"]: found for found in json.loads((folder / "report.json").read_text())["findings"]}


def test_a_parameter_is_named_where_it_was_used_even_if_it_is_gone_when_its_memory_is_reused(tmp_path):
    found = findings(tmp_path, PARAMETER)["SYN201"]
    assert found["help"].startswith("add `x.record_stream(side)` before line 6")


def test_a_tensor_is_not_named_after_the_result_of_the_statement_that_creates_and_frees_it(tmp_path):
    found = findings(tmp_path, TEMPORARY)["SYN201"]
    assert "loss" not in found["message"] + found["help"]
