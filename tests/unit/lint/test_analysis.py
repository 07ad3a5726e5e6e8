"""Analysis of one file: first as a script, then function by function."""

import gc
import textwrap
import weakref

import pytest

from syncheck.lint.analysis import RULES, Analysis
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.lifetimes import by_reference_count
from syncheck.lint.source_file import SourceFile


def analysis(source):
    return Analysis(SourceFile("program.py", source))


def found(source):
    return [(f.rule.code, f.location.frame.line) for f in analysis(textwrap.dedent(source).lstrip()).findings()]


RACE = """
    s = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(s):
        y = x * 2
"""
FUNCTION = "import torch\ndef f():" + RACE


def test_a_script_is_followed():
    assert found("import torch" + textwrap.dedent(RACE)) == [("SYN101", 5)]


def test_a_function_is_followed_separately_unless_the_script_reaches_it():
    assert found(FUNCTION) == [("SYN101", 6)]
    assert found(FUNCTION + "f()\n") == [("SYN101", 6)]


def test_a_function_behind_more_conditions_than_there_are_paths_is_followed_separately():
    choices = "\n".join(f"{'elif' if i else 'if'} args.m{i}:\n    print({i})" for i in range(12))
    source = f"{FUNCTION}args = parse()\ntorch.zeros(4).cuda()\n{choices}\nelif args.last:\n    f()\n"
    assert found(source) == [("SYN101", 6)]


def test_findings_come_from_the_linter_and_are_counted_once():
    findings = analysis(FUNCTION + "for _ in range(3):\n    f()\n").findings()
    (finding,) = (finding for finding in findings if finding.rule.code == "SYN101")
    assert (finding.source, finding.count) == ("lint", 1)


def test_invalid_python_is_rejected():
    with pytest.raises(SyntaxError):
        analysis("def (")


def test_methods_are_followed_on_an_object_on_which_any_method_may_have_run():
    source = """
    import torch
    class Loader:
        def __init__(self, data):
            self.stream = torch.cuda.Stream()
            self.data = data
        def next(self):
            with torch.cuda.stream(self.stream):
                batch = self.data.cuda(non_blocking=True)
            {wait}
            batch.add_(1)
    """
    assert ("SYN103", 10) in found(source.format(wait="pass"))
    assert ("SYN103", 10) not in found(source.format(wait="torch.cuda.current_stream().wait_stream(self.stream)"))


def test_a_stream_attribute_assigned_later_is_a_stream_of_the_object():
    source = """
    import torch
    class A:
        def setup(self):
            self.s = torch.cuda.Stream()
        def work(self):
            x = torch.ones(4, device="cuda")
            with torch.cuda.stream(self.s):
                y = x * 2
    """
    assert ("SYN101", 8) in found(source)


def test_unknown_conditions_are_decided_both_ways():
    source = """
    import torch
    def f(flag, x):
        s = torch.cuda.Stream()
        x = torch.ones(4, device="cuda")
        if flag:
            pass
        else:
            with torch.cuda.stream(s):
                y = x * 2
    """
    assert found(source) == [("SYN101", 9)]


def test_rules_about_earlier_execution_apply_only_to_scripts():
    loop = "for _ in range(4):\n    s = torch.cuda.Stream()\n"
    assert ("SYN805", 3) in found("import torch\n" + loop)
    assert found("import torch\ndef f():\n" + textwrap.indent(loop, "    ")) == []


def test_a_file_with_only_definitions_is_not_a_script():
    assert found("import torch\nx = 1\nclass A:\n    pass\n") == []


@pytest.mark.parametrize(
    ("branch", "is_script"),
    [
        ("if TYPE_CHECKING:\n    import types", False),
        ("try:\n    import types\nexcept ImportError:\n    types = None", False),
        ("if VERSION > 3:\n    if OTHER:\n        def g(): pass", False),
        ("if is_there():\n    import types", True),
        ("if VERSION > 3:\n    f()", True),
        ("try:\n    import types\nexcept ImportError:\n    print('none')", True),
        ("for _ in y: pass", True),
    ],
)
def test_branches_that_only_import_and_define_do_not_make_a_script(branch, is_script):
    function = "def f():\n    for _ in range(4):\n        s = torch.cuda.Stream()\n"
    codes = [code for code, _ in found(f"import torch\n{function}{branch}\nx = f()\n")]
    assert ("SYN805" in codes) is is_script


def test_an_inapplicable_stream_context_is_blamed_where_it_begins():
    source = """
    import torch
    s = torch.cuda.Stream(device=1)
    x = torch.ones(4, device="cuda:0")
    with torch.cuda.stream(s):
        y = x * 2
    """
    (finding,) = analysis(textwrap.dedent(source).lstrip()).findings()
    assert (finding.rule.code, finding.location.frame.line, finding.related[0].frame.line) == ("SYN501", 4, 5)


def test_an_endless_program_is_followed_for_a_limited_time():
    assert found("import torch\ndef f(s=torch.cuda.Stream()):\n    while True:\n        f()\nf()\n") == []


def test_a_branch_for_the_cpu_is_not_followed():
    source = """
    import torch
    def forward(x, weight, device):
        def fetch(weight, device):
            return weight.to(device, non_blocking=True)
        if device.type {} "cuda":
            return fetch(weight, torch.device("cpu")).sum().item()
        return x @ weight.to(device)
    """
    assert found(source.format("!=")) == []
    assert found(source.format("==")) == [("SYN301", 6)]


DEFERRED = """
import torch.distributed as dist
from collections import deque
{name} = deque()
def start(params):
    for param in params:
        work = dist.all_reduce(param, async_op=True)
        pending.append(work)
class Reducer:
    def start(self, param):
        pending.append((param, dist.all_reduce(param, async_op=True)))
"""


def test_a_handle_visible_to_other_functions_is_not_dropped():
    assert found(DEFERRED.format(name="pending")) == []
    dropped = DEFERRED.replace("{name} = deque()\n", "").replace("    for", "    pending = deque()\n    for")
    assert [code for code, _ in found(dropped)] == ["SYN603"]


NET = """
import time, torch
from moe import {kind}
def measure():
    x = torch.rand(8, 8).cuda()
    layer = {kind}(8).cuda()
    start = time.time()
    y = layer(x)
    {wait}
    print(time.time() - start)
"""


def test_a_clock_around_a_call_of_a_moved_module_is_reported():
    assert found(NET.format(kind="Experts", wait="pass")) == [("SYN701", 9)]
    assert found(NET.format(kind="Experts", wait="torch.cuda.synchronize()")) == []


def test_time_measured_after_emptying_the_cache_includes_the_work():
    source = NET.replace("layer = {kind}(8).cuda()", "layer = torch.nn.Linear(8, 8).cuda()")
    assert found(source.format(kind="K", wait="pass")) == [("SYN701", 9)]
    assert found(source.format(kind="K", wait="torch.cuda.empty_cache()")) == []


@pytest.mark.parametrize(("source", "expected"), [("torch.ones(8)", []), ("torch.ones(8).pin_memory()", ["SYN701"])])
def test_a_copy_from_pageable_memory_is_complete_when_a_clock_is_read(source, expected):
    loop = f"for _ in range(9): {source}.cuda(non_blocking=True)"
    program = f"import time, torch\nstart = time.time()\n{loop}\nprint(time.time() - start)\n"
    assert [code for code, _ in found(program) if code != "SYN303"] == expected


def test_rules_include_those_of_the_session_and_of_the_source():
    codes = {rule.code for rule in RULES}
    assert {"SYN101", "SYN406", "SYN804", "SYN904"} <= codes
    assert not {"SYN802", "SYN803"} & codes


CYCLES = """
    import torch
    class Kept:
        def __init__(self):
            self.me = self
            self.stream = torch.cuda.Stream()
    def batches():
        try:
            yield torch.ones(4, device="cuda")
        finally:
            torch.cuda.synchronize()
    kept = Kept()
    left = batches()
    next(left)
"""


def test_analyzed_objects_are_freed_without_the_garbage_collector():
    machines, errors = [], []

    def interpreter_of(machine, *args):
        machines.append(weakref.ref(machine))
        return Interpreter(machine, *args)

    gc.collect()
    source = SourceFile("program.py", textwrap.dedent(CYCLES) + FUNCTION)
    with by_reference_count(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", errors.append)
        Analysis(source, interpreter_of).findings()
        left = [machine for machine in machines if machine() is not None]
    assert machines
    assert not left
    assert not errors


def test_an_object_that_a_method_gets_may_be_kept_by_the_caller():
    source = """
    import torch
    import torch.distributed as dist
    class Bucket:
        def __init__(self, device):
            self.flat = torch.zeros(4, device=device)
            self.work = None
    class Reducer:
        def __init__(self, group):
            self.group = group
        def _launch(self, bucket: Bucket):
            bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
    """
    assert found(source) == []
    assert found(source.replace("bucket.work =", "work =")) == [("SYN603", 11)]
