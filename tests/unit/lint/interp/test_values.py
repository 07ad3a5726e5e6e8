"""Values that names may have."""

import ast

import pytest

from syncheck.lint.interp.contents import is_key, tensors_in
from syncheck.lint.interp.life import Life
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    WHOLE,
    Attribute,
    Block,
    Call,
    Class,
    Constant,
    Device,
    Instance,
    Mapping,
    Query,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    truth,
)
from tests.unit.lint.program import follow


def tensor():
    return Tensor(Block(1, 0, is_pinned=False, died=lambda _: None))


def kind(name="A", bases=(), **members):
    return Class(ast.parse(f"class {name}: pass").body[0], None, list(bases), members)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (Constant(0), False), (Constant("a"), True), (NONE, False),
        (Sequence([]), False), (Sequence([UNKNOWN]), True), (Sequence([], is_open=True), None),
        (Mapping({}), False), (Mapping({}, is_open=True), None), (Mapping({"a": NONE}, is_open=True), True),
        (UNKNOWN, None), (Symbol("torch.x"), None), (tensor(), None), (Instance(kind()), True),
        (Attribute(UNKNOWN, "a"), None), (Query(None), None), (Stream(1, 0), True), (Device(None), True),
        (kind(), True),
    ],
)  # fmt: skip
def test_the_truth_of_a_value_may_be_unknown(value, known):
    assert truth(value) is known


def test_tensors_are_found_in_containers_up_to_a_depth():
    x, y = tensor(), tensor()
    assert tensors_in(Sequence([x, Mapping({"a": Sequence([y])}), UNKNOWN])) == [x, y]
    deep = Sequence([Sequence([Sequence([Sequence([x])])])])
    assert tensors_in(deep) == []
    assert tensors_in(None) == []


def test_arguments_are_found_by_name_or_position():
    made = Call(ast.Pass(), [Constant(1), Constant(2)], {"b": Constant(True)})
    assert made.get("a", 1).value == 2
    assert made.get("b", 0).value is True
    assert made.get("c", 5) is None
    assert made.get("c") is None
    assert [made.flag("b"), made.flag("c"), made.flag("", 0)] == [True, False, True]
    assert Call(ast.Pass(), [UNKNOWN]).flag("", 0) is None
    assert [value.value for value in made.values()] == [1, 2, True]


def test_members_come_from_the_class_and_its_bases():
    base = kind("Base", a=Constant(1), b=Constant(2))
    derived = kind("Derived", [UNKNOWN, base], b=Constant(3))
    assert [derived.find(name).value for name in "ab"] == [1, 3]
    assert derived.find("c") is None
    assert not derived.is_known
    assert kind("Derived", [base]).is_known


def test_a_subclass_of_a_torch_module_is_a_net():
    assert kind(bases=[Symbol("torch.nn.Module")]).is_net
    assert kind(bases=[kind(bases=[Symbol("torch.nn.Sequential")])]).is_net
    assert not kind(bases=[Symbol("abc.ABC")]).is_net


def test_memory_dies_with_the_last_tensor_in_it():
    died = []
    x = Tensor(Block(7, 0, is_pinned=False, died=lambda block: died.append(block.ident)))
    part = Tensor(x.block, (0, 1))
    del x
    assert died == []
    assert part.part != WHOLE
    del part
    assert died == [7]


def test_a_lifetime_ends_with_its_holder():
    ended = []
    stream = Stream(1, 0, life=Life(lambda: ended.append(1)))
    assert ended == []
    del stream
    assert ended == [1]


@pytest.mark.parametrize(("value", "can"), [(1, True), ("a", True), (None, True), ((1, 2), True), (slice(3), False)])
def test_hashable_values_can_be_keys(value, can):
    assert is_key(value) is can


@pytest.mark.parametrize(
    ("members", "bases", "expected"),
    [
        ("pass", "", True),
        ("def __len__(self): return 0", "", None),
        ("def __bool__(self): return False", "", None),
        ("pass", "(Unknown)", None),
    ],
)
def test_an_object_is_true_unless_its_class_says_otherwise(members, bases, expected):
    names = follow(f"class Kind{bases}:\n    {members}\nmade = Kind()\n").scope.names
    assert truth(names["made"]) is expected
