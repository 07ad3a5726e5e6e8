"""Results that another stream still reads when a function drops them."""

import ast
import textwrap

import pytest

from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.patterns.dropped_inputs import findings
from syncheck.lint.source_file import SourceFile

FUNCTION = """
def forward(self, h, n):
    k = {made}
    k = k.view(2, -1).transpose(0, 1)
    {before}
    with torch.cuda.stream(self.s):
        {work}
    {after}
"""
FORK = "self.s.wait_stream(torch.cuda.current_stream())"


def found(made="self.k_proj(h)", before=FORK, work="self.cache[:n] = k", after="pass", **kwargs):
    source = textwrap.dedent(FUNCTION).format(made=made, before=before, work=work, after=after)
    file = SourceFile("program.py", source)
    function = file.tree.body[0]
    block = next(node for node in function.body if isinstance(node, ast.With))
    reported = findings(function, block, "self.s", SourceSites(file), **kwargs)
    return [(f.rule.code, f.location.frame.line, f.message) for f in reported]


def test_the_help_is_a_line_that_can_be_pasted_behind_the_block():
    parts = {"made": "self.k_proj(h)", "before": FORK, "work": "self.cache[:n] = k", "after": "pass"}
    file = SourceFile("program.py", textwrap.dedent(FUNCTION).format(**parts))
    function = file.tree.body[0]
    block = next(node for node in function.body if isinstance(node, ast.With))
    (finding,) = findings(function, block, "self.s", SourceSites(file))
    assert finding.help == "add `k.record_stream(self.s)` after line 7, outside of the block"


def test_a_result_that_a_side_stream_reads_last_is_reported():
    ((code, line, message),) = found()
    assert (code, line) == ("SYN201", 7)
    assert message == "`k` may be reused while stream `self.s` is still reading it"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("self.k_proj(h)", True), ("F.relu(h)", True), ("torch.matmul(h, h)", True), ("h @ h", True),
        ("self.buffer(h)", False), ("load(h)", False), ("torch.arange(4)", False), ("h", False),
    ],
)  # fmt: skip
def test_only_results_of_operators_and_layers_are_new_memory(made, expected):
    assert bool(found(made=made)) is expected


@pytest.mark.parametrize(
    "after",
    [
        "torch.cuda.current_stream().wait_stream(self.s)", "k.record_stream(self.s)", "torch.cuda.synchronize()",
        "self.done.wait()", "n = h.sum().item()", "return k", "self.kept = k", "kept[n] = k", "kept.append(k)",
        "kept = [k]", "view = k[1:]", "flat = k.view(-1)", "self.ctx.save_for_backward(k)", "later = lambda: k",
    ],
)  # fmt: skip
def test_a_result_that_is_kept_or_waited_for_is_not_reported(after):
    assert not found(after=after)


@pytest.mark.parametrize("before", ["pass", "self.s.wait_event(e)", "other.wait_stream(torch.cuda.current_stream())"])
def test_only_a_stream_that_waits_for_the_current_one_counts(before):
    assert not found(before=before)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("e.record(); self.s.wait_event(e)", True), ("e.record(self.compute); self.s.wait_event(e)", True),
        ("self.s.wait_event(torch.cuda.current_stream().record_event())", True),
        ("self.s.wait_stream(torch.cuda.default_stream())", True),
        ("e.record(self.s); self.s.wait_event(e)", False), ("e.record(); other.wait_event(e)", False),
    ],
)  # fmt: skip
def test_a_stream_may_wait_for_an_event_of_the_current_one(before, expected):
    assert bool(found(before=before)) is expected


def test_a_stream_may_wait_inside_its_block():
    assert found(before="e.record()", work="self.s.wait_event(e); self.cache[:n] = k")
    assert found(before="pass", work="torch.cuda.current_stream().wait_stream(torch.cuda.default_stream()); f(k)")


def test_whoever_gets_the_results_of_the_block_may_wait_at_once():
    assert not found(work="y = gate(k)")
    assert not found(is_recorded=True)


@pytest.mark.parametrize(
    "after", ["return k.view(-1)", "self.hold(k)", "self.k: Tensor = k", "return Output(k)", "q.put(item=k)"]
)
def test_more_ways_to_keep_a_result(after):
    assert not found(after=after)


PACK = """
def pack(t):
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        c = t.to("cpu", non_blocking=True)
        e = s.record_event()
    {keep}
    return 1

hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
"""


@pytest.mark.parametrize(
    ("keep", "expected"), [("kept[1] = c", True), ("kept[1] = t", False), ("kept[1] = Entry(t)", False)]
)
def test_what_autograd_packs_is_dropped(keep, expected):
    file = SourceFile("program.py", PACK.format(keep=keep))
    function = file.tree.body[0]
    block = next(node for node in function.body if isinstance(node, ast.With))
    assert bool(list(findings(function, block, "s", SourceSites(file), is_recorded=True))) is expected


def test_a_variable_may_hold_the_current_stream():
    assert found(before="main = torch.cuda.current_stream()\n    self.s.wait_stream(main)")
    assert not found(before="main = load()\n    self.s.wait_stream(main)")


def test_what_the_block_does_not_read_is_not_reported():
    assert not found(work="self.cache[:n] = h")
    assert not found(work="self.cache[:n] = k; return 1")
    assert not found(work="n = k.shape[0]")


def test_a_use_on_the_current_stream_does_not_protect_it():
    assert found(after="y = attend(h, k)\n    return y")


def test_a_part_of_a_tensor_that_is_set_to_it_is_a_copy():
    assert found(after="cache[:, :n] = k")
