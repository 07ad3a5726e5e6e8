"""Fixes in source code name the caller's current stream, which need not be the default stream."""

import pytest

from syncheck.lint.engine import all_rules, lint_source
from syncheck.lint.files import Text
from syncheck.lint.fixes.repair import repair
from syncheck.rules.model import Severity
from tests import warm

LIBRARY = """import torch

def side_sum(x):
    side = torch.cuda.Stream()
    y = x * 2
    {before}with torch.cuda.stream(side):
        z = y.sum()
    torch.cuda.current_stream().wait_stream(side)
    return z

def read(x):
    host = (x.cuda() * 2).to("cpu", non_blocking=True)
    {wait}return host.sum().item()
"""
PROGRAM = """
own = torch.cuda.Stream()
with torch.cuda.stream(own):
    x = torch.ones(64, device="cuda")
    print(side_sum(x).item(), read(x))
"""


def fixed():
    given = LIBRARY.format(before="", wait="").replace("y = x * 2", "y = x.cuda() * 2")
    return repair("library.py", given, unsafe=True, codes=frozenset(rule.code for rule in all_rules())).source


def test_the_waits_name_the_current_stream_where_it_is_current():
    expected = LIBRARY.format(
        before="side.wait_stream(torch.cuda.current_stream())\n    ",
        wait="torch.cuda.current_stream().synchronize()\n    ",
    )
    assert fixed() == expected.replace("y = x * 2", "y = x.cuda() * 2")


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_caller_on_another_stream_is_ordered_too(tmp_path, is_fixed):
    source = fixed() if is_fixed else LIBRARY.format(before="", wait="")
    (tmp_path / "train.py").write_text(source + PROGRAM)
    run = warm.run("syncheck", "run", "--backend", "sim", "train.py", folder=tmp_path)
    assert run.returncode == (not is_fixed), run.stderr


HELPER = """import torch

def copy_into(target, source):
    target.copy_(source, non_blocking=True)

class Loader:
    def __init__(self, loader, example):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.static = torch.empty_like(example, device="cuda")

    def __iter__(self):
        for batch in self.loader:
            {wait}with torch.cuda.stream(self.stream):
                copy_into(self.static, batch)
            torch.cuda.current_stream().wait_stream(self.stream)
            yield self.static
"""


def test_a_wait_in_a_helper_does_not_name_the_same_stream_twice():
    given = HELPER.format(wait="")
    result = lint_source("library.py", Text(given))
    (finding,) = (each for each in result.findings if each.level is not Severity.ADVICE)
    assert finding.rule.code == "SYN102"
    assert "add `self.stream.wait_stream(torch.cuda.current_stream())` before line 14" in finding.help
