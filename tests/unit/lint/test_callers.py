"""Uses of a function's results by unknown callers."""

import textwrap

import pytest

from syncheck.lint.callers import PassedOnObjects, PassedOnTensor, consume
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.values import UNKNOWN, Call, Instance
from tests.unit.lint.program import follow

HEAD = "s = torch.cuda.Stream()\nx = torch.ones(4, device='cuda')\nh = torch.ones(4)\n"


def calls_after(body, name="f"):
    """Return the calls that the callers of a function make, and the program."""
    program = follow(HEAD + f"def {name}():\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    function = program.scope.names[name]
    result = program.interpreter.call_function(function, Call(function.node, [], {}))
    start = len(program.calls)
    consume(program.interpreter, result, function.node)
    return program.calls[start:], program


USE = "launch cuda:0 the caller's work"


def test_each_batch_of_a_generator_is_used_on_the_current_stream():
    calls, _ = calls_after("""
        for _ in range(2):
            batch = torch.ones(2, device='cuda')
            yield batch
    """)
    assert [call for call in calls if call.startswith("launch cuda:0 the")] == [f"{USE} r2", f"{USE} r3"]


def test_a_batch_is_dropped_before_the_next_one_is_created():
    calls, _ = calls_after("""
        for _ in range(2):
            yield torch.ones(2, device='cuda')
    """)
    shown = [call for call in calls if call.startswith((USE, "free"))]
    assert shown[:3] == [f"{USE} r2", "free 2", f"{USE} r3"]


def test_gpu_tensors_in_a_batch_are_used():
    calls, _ = calls_after("yield {'x': [x], 'h': h}")
    assert calls == [f"{USE} r1"]


def test_an_iterable_object_is_looped_over():
    program = follow(HEAD + "class Loader:\n    def __iter__(self):\n        yield x\nloader = Loader()\n")
    loader = program.scope.names["loader"]
    assert isinstance(loader, Instance)
    start = len(program.calls)
    consume(program.interpreter, loader, program.tree.body[3])
    assert program.calls[start:] == [f"{USE} r1"]


@pytest.mark.parametrize(
    ("body", "is_used"),
    [
        ("yield self.a", False),
        ("yield from vars(self).values()", False),
        ("return iter((self.a, self.a))", False),
        ("yield load(self.a)", True),
        ("yield self.a\n    def __next__(self): return self.a", True),
    ],
)
def test_an_object_that_lists_its_attributes_is_data(body, is_used):
    text = f"class Packet:\n    def __init__(self): self.a = x\n    def __iter__(self):\n        {body}\n"
    program = follow(HEAD + f"def load(a): return a\n{text}packet = Packet()\n")
    packet = program.scope.names["packet"]
    start = len(program.calls)
    consume(program.interpreter, packet, program.tree.body[-1])
    assert any(call.startswith(USE) for call in program.calls[start:]) is is_used


@pytest.mark.parametrize("name", ["__next__", "next"])
def test_the_next_batch_is_used(name):
    calls, _ = calls_after("return x", name)
    assert calls == [f"{USE} r1"]


def test_any_other_result_escapes():
    calls, program = calls_after("return x")
    assert not any(call.startswith("launch") for call in calls)
    assert program.scope.names["x"].block.escaped


def test_the_use_is_attributed_to_the_function_and_the_state_is_restored():
    program = follow(HEAD)
    seen = []
    program.machine.function = "outer"
    launch = program.machine.launch
    program.machine.launch = lambda *args: (seen.append(program.machine.function), launch(*args))
    consume(program.interpreter, program.scope.names["x"], follow("def next(): pass").tree.body[0])
    assert seen == ["next"]
    assert program.machine.function == "outer"


METHODS = follow("def make(): pass\ndef use(x): pass\n").tree.body


@pytest.mark.parametrize(("after", "is_handed_on"), [("", True), ("torch.cuda.synchronize()", False)])
def test_a_result_still_being_computed_is_passed_to_another_method(after, is_handed_on):
    program = follow(f"{HEAD}y = x + 1\n{after}\n")
    passed_on, machine, names = PassedOnTensor(), program.machine, program.scope.names
    passed_on.note(machine, names["y"], METHODS[0])
    start = len(program.calls)
    args = passed_on.among(machine, {"x": names["x"]}, METHODS[1])
    assert (args["x"] is not names["x"]) == is_handed_on
    assert any("another method" in call for call in program.calls[start:]) == is_handed_on
    assert passed_on.among(machine, {"x": names["x"]}, METHODS[0]) == {"x": names["x"]}
    assert passed_on.among(machine, {"n": UNKNOWN}, METHODS[1]) == {"n": UNKNOWN}


def test_an_object_that_a_method_returns_is_passed_to_the_next_one_that_takes_it():
    names = follow(
        "class Slot:\n    def __init__(self): self.times = []\nclass Other: pass\n"
        "made, given, other = Slot(), Slot(), Other()\n"
    ).scope.names
    passed_on = PassedOnObjects([{"slot": names["given"]}, {}])
    assert passed_on.among({"slot": names["given"]}) == {"slot": names["given"]}
    assert passed_on.take(names["made"])
    assert names["made"].attributes["times"].is_open  # other code may have changed it in between
    assert not passed_on.take(names["other"])  # no method takes one
    assert not passed_on.take(UNKNOWN)
    arguments = {"slot": names["given"], "n": UNKNOWN}
    assert passed_on.among(arguments) == {"slot": names["made"], "n": UNKNOWN}
    assert passed_on.among(arguments) == arguments  # once


KEPT = """
import torch
KEPT = torch.cuda.Stream()
def f(x):
    {wait}
    with torch.cuda.stream({stream}):
        y = torch.zeros(4, device="cuda")
        y.sin_()
    torch.cuda.current_stream().wait_stream({stream})
    return y + 1
"""


@pytest.mark.parametrize(
    ("stream", "wait", "expected"),
    [
        ("KEPT", "pass", ["SYN201"]),
        ("KEPT", "KEPT.wait_stream(torch.cuda.current_stream())", []),
        ("own", "own = torch.cuda.Stream()", []),
    ],
)
def test_a_function_with_a_longer_lived_stream_is_called_again(stream, wait, expected):
    result = lint_source("m.py", Text(KEPT.format(stream=stream, wait=wait)))
    assert [finding.rule.code for finding in result.findings] == expected


def test_findings_of_a_second_call_on_shared_memory_are_left_to_the_callers():
    source = KEPT.replace("y = torch", "BOTH.sin_()\n        y = torch").replace(
        "def f", "BOTH = torch.zeros(4, device='cuda')\ndef f"
    )
    result = lint_source("m.py", Text(source.format(stream="KEPT", wait="BOTH.cos_(); torch.cuda.synchronize()")))
    assert {finding.rule.code for finding in result.findings} <= {"SYN201"}


HANDLE = """
class Handle:
    def __init__(self, copy, event):
        self.copy, self.event = copy, event
    def result(self):
        self.event.synchronize()
        return self.copy.tolist()
    def later(self, n):
        self.event.synchronize()
    def _own(self):
        self.event.synchronize()
    def size(self):
        return len(self.copy)
def f():
    event = torch.cuda.Event()
    event.record()
    return Handle(h, event)
"""


def test_the_methods_with_which_a_caller_waits_are_called():
    program = follow(HEAD + HANDLE)
    function = program.scope.names["f"]
    result = program.interpreter.call_function(function, Call(function.node, [], {}))
    start = len(program.calls)
    consume(program.interpreter, result, function.node)
    assert program.calls[start:] == ["sync e1"]


LOADER = """import torch
class Loader:
    def __init__(self, batches):
        self.batches, self.stream = iter(batches), torch.cuda.Stream()
    def preload(self):
        with torch.cuda.stream(self.stream):
            self.batch = next(self.batches).to("cuda", non_blocking=True)
    def __next__(self):
        '''Return the next batch.'''
        {first}
        {second}
        return batch
"""


def test_the_caller_uses_what_earlier_calls_have_loaded_from_the_first_statement_on():
    """A wait there does not cover the next copy, which still overlaps with the caller's work."""
    source = LOADER.format(first="batch = self.batch", second="self.preload()")
    found = {f.rule.code: f for f in lint_source("m.py", Text(source)).findings}
    assert {code: f.location.frame.line for code, f in found.items()} == {"SYN101": 10, "SYN201": 12}
    assert [f.fix.edits[0].code for f in found.values()] == [
        "torch.cuda.current_stream().wait_stream(self.stream)",
        "batch.record_stream(torch.cuda.current_stream())",
    ]


def test_the_caller_uses_what_the_call_itself_loads_after_it():
    source = LOADER.format(first="self.preload()", second="batch = self.batch")
    found = {f.rule.code: f.location.frame.line for f in lint_source("m.py", Text(source)).findings}
    assert found["SYN101"] == 8
