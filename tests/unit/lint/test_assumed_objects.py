"""Objects that a function is assumed to get."""

import pytest

from syncheck.lint.assumed_objects import AssumedObjects
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.values import Constant, Instance, Sequence, Stream
from syncheck.rules.catalogue import find
from tests.unit.lint.program import follow

CLASSES = """
from typing import Optional
class Ring:
    def __init__(self, size: int = 2):
        self.slots, self.free, self.side = [1, 2], [], torch.cuda.Stream()
class Pool:
    def __init__(self, ring: Ring, owner: "Pool"):
        self.ring, self.owner, self.count = ring, owner, 3
    def grow(self):
        self.count = other()
class Plain:
    def __init__(self): self.n = 1
class Net(torch.nn.Module):
    def __init__(self): self.n = 1
"""


def given(signature):
    program = follow(CLASSES + f"def f({signature}): pass\n")
    return AssumedObjects().given(program.interpreter, program.scope.find("f"))


@pytest.mark.parametrize("annotation", ["Ring", "'Ring'", "Ring | None", "Optional[Ring]", "'Optional[Ring]'"])
def test_an_annotation_names_the_class(annotation):
    found = given(f"ring: {annotation}")
    assert found["ring"].kind.node.name == "Ring"


@pytest.mark.parametrize("annotation", ["list[Ring]", "Iterable['Ring']", "typing.List[Ring] | None"])
def test_a_list_holds_an_object_of_the_class(annotation):
    rings = given(f"rings: {annotation}")["rings"]
    assert [ring.kind.node.name for ring in rings.items] == ["Ring"]
    assert rings.is_open
    assert given(f"rings: {annotation.replace('Ring', 'Plain')}") == {}


@pytest.mark.parametrize(
    "annotation", ["int", "Missing", "dict[str, Ring]", "'not an expression'", "Net", "Ring | int"]
)
def test_other_annotations_name_no_object(annotation):
    assert given(f"ring: {annotation}") == {}


def test_parameters_without_annotations_get_no_object():
    assert set(given("a, b: Ring, *, c: Ring")) == {"b", "c"}


def test_objects_hold_objects_up_to_a_depth():
    pool = given("pool: Pool")["pool"]
    assert pool.attributes["ring"].kind.node.name == "Ring"
    assert isinstance(pool.attributes["owner"].attributes["owner"], Instance)
    assert not isinstance(pool.attributes["owner"].attributes["owner"].attributes["owner"], Instance)


def test_other_code_may_have_added_items_to_an_empty_list():
    ring = given("ring: Ring")["ring"]
    assert isinstance(ring.attributes["free"], Sequence)
    assert ring.attributes["free"].is_open
    assert not ring.attributes["slots"].is_open


def test_other_methods_may_have_changed_a_used_object():
    program = follow(CLASSES)
    kind = program.scope.find("Pool")
    pool = AssumedObjects().used(program.interpreter, kind, kind.members["grow"].node)
    assert not isinstance(pool.attributes["count"], Constant)
    begin = kind.members["__init__"].node
    assert AssumedObjects().used(program.interpreter, kind, begin).attributes == {}


STREAMS = """
class Owner:
    def __init__(self, size, side: Optional[torch.cuda.Stream] = None):
        self.side = side
    def work(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            return x * 2
"""


@pytest.mark.parametrize("has_streams", [True, False])
def test_a_constructor_gets_a_stream_if_streams_are_assumed(has_streams):
    program = follow(STREAMS)
    objects = AssumedObjects(has_streams=has_streams)
    made = objects.new(program.interpreter, program.scope.find("Owner"))
    assert isinstance(made.attributes["side"], Stream) == has_streams


@pytest.mark.parametrize(("code", "can_depend"), [("SYN101", True), ("SYN302", True), ("SYN603", False)])
def test_only_rules_about_streams_depend_on_the_streams_that_a_function_gets(code, can_depend):
    assert AssumedObjects(has_streams=True).may_affect(find(code)) == can_depend
    assert AssumedObjects().may_affect(find(code))


def test_the_work_and_the_events_of_a_given_object_are_earlier():
    program = follow("""
        class Slot:
            def __init__(self): self.x, self.e = torch.zeros(3, device="cuda"), torch.cuda.Event()
        def f(slot: Slot): pass
    """)
    slot = AssumedObjects().given(program.interpreter, program.scope.find("f"))["slot"]
    assert program.calls[-1] == "all complete"
    assert slot.attributes["e"].made is None


SLOTS = """import torch
class Slot:
    def __init__(self):
        self.host, self.done = torch.empty(4, pin_memory=True), torch.cuda.Event()
class Worker:
    def __init__(self):
        self.stream, self.slots = torch.cuda.Stream(), [Slot() for _ in range(3)]
    def launch(self, x, i):
        slot = self.slots[i]
        slot.done.synchronize()
        with torch.cuda.stream(self.stream):
            slot.host.copy_(x.cuda(), non_blocking=True)
            slot.done.record(self.stream)
        return slot
    def deliver(self, slot: Slot):
        {wait}
        return slot.host.clone()
"""


def test_the_host_may_wait_for_an_event_of_a_given_object():
    """Other code may have recorded the event before it passed the object on."""
    for wait in ("slot.done.synchronize()", "torch.cuda.current_stream().wait_event(slot.done)"):
        result = lint_source("m.py", Text(SLOTS.format(wait=wait)))
        assert "SYN401" not in [finding.rule.code for finding in result.findings]
