"""Streams that a function orders on one side only."""

import textwrap

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint import deferred
from syncheck.lint.patterns.one_sided import WORDS, findings
from syncheck.lint.source_file import SourceFile
from syncheck.rules.catalogue import find
from tests.unit.lint.checking import context_of

SOURCE = """
class Layer:
    def forward(self, x, gate, kept, where):
        {make}
        x = self.norm(x)
        {fork}
        with torch.cuda.stream({stream}):
            {work}
        {join}
        {after}
"""
SIDE, OWN = "self.side", "side = torch.cuda.Stream()"
FORK = "{stream}.wait_stream(torch.cuda.current_stream())"
JOIN = "torch.cuda.current_stream().wait_stream({stream})"
FETCH = "kept.cpu_buffer.copy_(x, non_blocking=True)"
NO_FORK = "stream `{stream}` never waits for the stream that computes what it uses here"
NO_JOIN = "nothing waits for stream `{stream}`, whose results this function uses later"
NO_JOIN_OWN = "nothing waits for stream `{stream}`, which is created in this function"


def found(stream=SIDE, *, make="pass", fork=FORK, work="y = gate(x)", join=JOIN, after="return x + y", known=()):
    parts = {"make": make, "work": work, "after": after}
    parts |= {"fork": fork, "join": join}
    source = textwrap.dedent(SOURCE).format(
        stream=stream, **{part: text.format(stream=stream) for part, text in parts.items()}
    )
    file = SourceFile("program.py", source)
    said = [f.message for f in findings(context_of(file, known))]
    assert not said or WORDS.search(source)
    return said


@pytest.mark.parametrize(
    ("given", "flaw"),
    [
        ({"fork": "pass"}, NO_FORK),
        ({"join": "pass"}, NO_JOIN),
        ({"join": "pass", "after": "x += y"}, NO_JOIN),
        ({"join": "pass", "after": "return self.mix(x, y)"}, NO_JOIN),
        ({"join": "pass", "after": "return y.view(-1)"}, NO_JOIN),
        ({"fork": "pass", "work": "{stream}.wait_event(where); y = gate(x)", "join": "pass"}, NO_JOIN),
        ({"stream": "side", "make": OWN, "fork": "pass"}, NO_FORK),
        ({"stream": "side", "make": OWN, "join": "pass", "after": "return y"}, NO_JOIN_OWN),
        ({"stream": "side", "make": OWN, "fork": "pass", "work": FETCH, "join": "{stream}.synchronize()"}, NO_FORK),
        ({"stream": "side", "make": "side = self.sides.get()", "join": "pass"}, NO_JOIN),
        ({"stream": "side", "make": "side = self.side", "join": "pass"}, NO_JOIN),
        ({"join": "pass", "work": "kept.a.copy_(gate, non_blocking=True)", "after": "return x @ kept.a"}, NO_JOIN),
        (
            {
                "stream": "side",
                "make": f"side = None; {OWN}",
                "fork": "pass",
                "work": "y = gate(x).cpu()",
                "join": "pass",
                "after": "return y",
            },
            NO_FORK,
        ),
    ],
)
def test_a_stream_ordered_on_one_side_only_is_found(given, flaw):
    assert found(**given) == [flaw.format(stream=given.get("stream", SIDE))]


@pytest.mark.parametrize(("code", "n_found"), [("SYN101", 0), ("SYN701", 0), ("SYN301", 1)])
def test_another_finding_is_more_specific_unless_it_is_about_the_host(code, n_found):
    known = Finding(find(code), Location(Frame("program.py", 8)), "")
    assert len(found(fork="pass", known=[known])) == n_found


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"fork": "pass", "join": "pass"},  # nothing indicates that it is a different stream
        {"join": "pass", "after": "return y"},  # the caller may wait
        {"join": "pass", "after": "kept.append(y)"},
        {"join": "pass", "after": "return y.shape"},
        {"join": "pass", "after": "y = x\n        return y + 1"},
        {"join": "pass", "work": "kept.a.copy_(gate, non_blocking=True)", "after": "return x @ kept.b"},
        {"join": "pass", "work": "kept.a.copy_(gate, non_blocking=True)", "after": "return kept.a.shape"},
        {"join": "torch.cuda.synchronize()"},
        {"join": "self.join()"},
        {"join": "done = {stream}.record_event()"},
        {"join": "pass", "after": "return x + y, {stream}"},
        {"join": "kept.put({stream})"},
        {"join": "torch.cuda.current_stream().wait_event(where)"},
        {"join": "where.wait()"},
        {"join": "kept.hook(lambda: where.wait_stream({stream}))"},
        {"join": "pass", "work": "y = gate(x); where.record()"},
        {"fork": "where.synchronize()"},
        {"fork": "pass", "work": "torch.cuda.current_stream().wait_stream(where); y = gate(x)"},
        {"fork": "pass", "work": "y = x.to('cuda', non_blocking=True)"},  # from the host
        {"fork": "where = torch.tensor([1, 2], device=kept)", "work": "y = gate(x)"},  # the host waits
        {"fork": "pass", "work": "y = 2"},
        {"fork": "pass", "work": "y = gate(kept)"},  # the caller is responsible for that
        {"stream": "where", "fork": "pass"},  # and for a stream of its own
        {"stream": "side", "make": OWN, "fork": "pass", "work": "y = DataParallel(gate)"},
        {"stream": "side", "make": OWN, "fork": "pass", "work": "y = torch.ones(4)"},
        {"stream": "side", "make": OWN, "fork": "pass", "work": "y = torch.randn(kept, where).sin()"},
        {"stream": "side", "make": OWN, "fork": "pass", "work": "y = [torch.sin(1) for _ in range(kept)]"},
        {"stream": "side", "make": OWN, "join": "pass", "work": "gate(x)", "after": "return x"},
        {"stream": "side", "make": OWN, "join": "pass", "work": "y = gate(x); return y"},
        {"stream": "side", "make": OWN, "join": "pass", "work": "y = gate(x); kept.set_result(y)", "after": "return x"},
        {"stream": "side", "make": "side = torch.cuda.current_stream()", "join": "pass"},
        {"stream": "side", "make": "side = where or torch.cuda.current_stream()", "join": "pass"},
        {"stream": "side", "make": "global side; " + OWN, "join": "pass", "after": "return y"},
    ],
)
def test_a_stream_that_may_be_ordered_is_not_reported(given):
    assert found(**given) == []


@pytest.mark.parametrize("function", ["torch.cuda.stream", "stream", "torch.cuda.StreamContext"])
@pytest.mark.parametrize("is_parsed", [False, True])
def test_neither_the_spelling_of_a_block_nor_whether_it_was_parsed_matters(function, is_parsed):
    parts = {"make": "pass", "fork": "pass", "work": "y = gate(x)", "after": "return x + y"}
    source = textwrap.dedent(SOURCE).replace("torch.cuda.stream", function)
    file = SourceFile("program.py", source.format(stream=SIDE, join=JOIN.format(stream=SIDE), **parts))
    functions = list(deferred.functions(file.tree.body))
    assert not is_parsed or functions[0].body
    (finding,) = findings(context_of(file, functions=functions))
    assert finding.message == NO_FORK.format(stream=SIDE)


FETCH = "self.counts_cpu[:4].copy_(kept, non_blocking=True)"


@pytest.mark.parametrize(
    "given",
    [
        {"work": FETCH + "; self.done.record()", "join": "pass"},
        {"work": FETCH, "join": "self.done.record({stream})"},
        {"work": FETCH, "join": "self.done = {stream}.record_event()"},
        {"work": FETCH},
        {"work": "counts = kept; self.host = counts.to('cpu', non_blocking=True); self.done.record()", "join": "pass"},
    ],
)
def test_a_stream_that_copies_to_the_host_must_wait_for_its_source(given):
    given = {"after": "return x", "fork": "pass", **given}
    assert found(**given) == [NO_FORK.format(stream=SIDE)]
    assert found(**given, make="torch.cuda.synchronize()") == []
    other = "return x\n\n    def begin(self):\n        self.side.wait_event(self.begun)"
    assert found(**{**given, "after": other}) == []
    assert found(**{**given, "fork": FORK}) == []


def test_only_training_computes_the_parameters_of_a_module():
    moved = {
        "fork": "pass",
        "work": "self.models[kept].to('cpu', non_blocking=True); self.done.record()",
        "join": "pass",
    }
    assert found(**moved, after="return x") == []
    assert found(**moved, after="self.optimizer.step()") == [NO_FORK.format(stream=SIDE)]


@pytest.mark.parametrize(
    "given",
    [
        {"work": "x = gate(kept); self.x_cpu.copy_(x, non_blocking=True); self.done.record()"},  # made in the block
        {"work": "self.x_gpu.copy_(kept, non_blocking=True); self.done.record()"},
        {"work": "self.x_cpu.copy_(kept); self.done.record()"},
        {"work": FETCH},  # nothing indicates that it is a different stream
        {"work": FETCH + "; self.done.record()", "stream": "where"},
    ],
)
def test_other_copies_may_need_no_wait(given):
    assert found(after="return x", fork="pass", join="pass", **given) == []


def test_a_block_with_a_known_race_is_not_reported_again():
    from syncheck.lint.engine import lint_source
    from syncheck.lint.files import Text

    source = """
import torch

def run(net):
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        y = net(x * 2)
    torch.cuda.current_stream().wait_stream(side)
    return y
"""
    assert [finding.rule.code for finding in lint_source("m.py", Text(source)).findings] == ["SYN101"]


def test_an_input_that_is_dropped_while_the_stream_reads_it_is_reported():
    source = """
def forward(self, h):
    k = self.k_proj(h)
    self.side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(self.side):
        self.cache[:1] = k
    {after}
"""
    file = SourceFile("program.py", source.format(after="return h"))
    (reported,) = findings(context_of(file, functions=[file.tree.body[0]]))
    assert (reported.rule.code, reported.location.frame.line) == ("SYN201", 6)
    file = SourceFile("program.py", source.format(after="n = h.sum().item()"))
    assert not list(findings(context_of(file, functions=[file.tree.body[0]])))
    exclusive = source.replace("    with", "    if h.ndim:\n      with").replace("        self", "          self")
    file = SourceFile("program.py", exclusive.format(after="else:\n        n = h.sum().item()"))
    assert len(list(findings(context_of(file, functions=[file.tree.body[0]])))) == 1
    file = SourceFile("program.py", source.format(after="hand_over(self.side)"))
    assert not list(findings(context_of(file, functions=[file.tree.body[0]])))


@pytest.mark.parametrize(("end", "n_found"), [("    done = self.mark()", 0), ("done = self.mark()", 1)])
def test_a_method_that_records_an_event_inside_the_block_is_a_record(end, n_found):
    parts = {"make": "pass", "fork": FORK.format(stream=SIDE), "work": "y = gate(x)", "after": "kept.put(done, x + y)"}
    source = textwrap.dedent(SOURCE).format(stream=SIDE, join=end, **parts)
    file = SourceFile("program.py", source + "\n    def mark(self):\n        return torch.cuda.Event().record()\n")
    assert len(list(findings(context_of(file)))) == n_found


@pytest.mark.parametrize(("statement", "n_found"), [("t.record_stream(s)", 1), ("s.wait_stream(t)", 0), ("f(t, s)", 0)])
def test_a_function_that_only_records_tensors_on_a_stream_does_not_order_it(statement, n_found):
    parts = {"make": "pass", "fork": FORK.format(stream=SIDE), "work": "y = gate(x)", "after": "return x + y"}
    source = textwrap.dedent(SOURCE).format(stream=SIDE, join=f"touch(x, {SIDE})", **parts)
    file = SourceFile("program.py", f"{source}\ndef touch(t, s):\n    {statement}\n")
    assert len(list(findings(context_of(file)))) == n_found


def test_a_backward_function_must_join_before_it_returns_results_of_a_side_stream():
    source = """
@staticmethod
def {name}({first}, grad):
    side = stream_of(grad.device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        made = weigh(grad)
    return None, made
"""
    for name, first, n_found in (("backward", "ctx", 1), ("backward", "self", 0), ("forward", "ctx", 0)):
        file = SourceFile("program.py", source.format(name=name, first=first))
        assert len(list(findings(context_of(file, functions=file.tree.body)))) == n_found
