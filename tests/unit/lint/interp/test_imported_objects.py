"""Waits in methods of classes of other files."""

import ast

import pytest

from syncheck.lint.interp.imported_objects import ImportedObjects, waits
from syncheck.lint.interp.values import Call
from tests.unit.lint.program import new_program

TIMER = ast.parse("""
class Timer:
    def __init__(self): self.total = 0
    def start(self): self.sync()
    def sync(self): torch.cuda.synchronize()
    def read(self): return self.total
    def loop(self): return self.loop()
    def order(self): self.side.wait_stream(torch.cuda.current_stream())
    def a(self): self.b()
    def b(self): self.c()
    def c(self): self.d()
    def d(self): self.sync()
""").body[0]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sync", True), ("start", True), ("read", False), ("loop", False), ("order", False),
        ("missing", False), ("__init__", False),
        ("b", True), ("a", True),
    ],
)  # fmt: skip
def test_a_method_may_wait_through_others(method, expected):
    assert waits(TIMER, method) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("timer.start()", ["all complete"]),
        ("self.timer.start()", ["all complete"]),
        ("timer.read()", []),
        ("other.start()", []),
        ("start()", []),
    ],
)
def test_an_object_is_known_by_its_name(call, expected):
    program = new_program()
    objects = ImportedObjects(program.machine)
    statement = ast.parse("self.timer = Timer()").body[0]
    program.machine.sites.bound = lambda _: "self.timer"
    objects.create(TIMER, Call(statement.value, []))
    before = len(program.calls)
    objects.call_method(Call(ast.parse(call, mode="eval").body, []))
    assert list(program.calls)[before:] == expected
