"""Tensors and handles contained in values."""

import ast

import pytest

from syncheck.lint.interp.contents import (
    function_of,
    handles_in,
    is_key,
    note_earlier_use,
    parameters_of,
    tensors_in,
)
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    Attribute,
    Block,
    Constant,
    Function,
    Mapping,
    Module,
    Optimizer,
    Sequence,
    Tensor,
    Work,
)
from tests.unit.lint.program import follow


def tensor():
    return Tensor(Block(1, 0, is_pinned=False, died=lambda ident: None))


def nested(value, levels):
    for level in range(levels):
        value = Mapping({"x": value}) if level % 2 else Sequence([value])
    return value


def function(text, **names):
    scope = Scope()
    scope.names.update(names)
    return Function(ast.parse(text, mode="eval").body, scope)


@pytest.mark.parametrize(
    ("find", "make"), [(tensors_in, tensor), (handles_in, lambda: Work(None))], ids=["tensors", "works"]
)
class TestContents:
    def test_a_value_of_the_kind_contains_itself(self, find, make):
        value = make()
        assert find(value) == [value]

    @pytest.mark.parametrize("value", [None, NONE, UNKNOWN, Constant(3), Sequence([]), Mapping({}), Sequence([NONE])])
    def test_other_values_contain_none(self, find, make, value):
        assert find(value) == []

    def test_lists_and_dictionaries_are_searched_in_order(self, find, make):
        one, two, three = make(), make(), make()
        assert find(Sequence([one, NONE, Mapping({"a": two, "b": Sequence([three])})])) == [one, two, three]

    def test_three_levels_are_searched(self, find, make):
        value = make()
        assert find(nested(value, 3)) == [value]
        assert find(nested(value, 4)) == []


def test_values_of_the_other_kind_are_ignored():
    assert tensors_in(Work(None)) == []
    assert handles_in(tensor()) == []


def test_a_function_contains_the_handles_it_uses():
    used, unused = Work(None), Work(None)
    assert handles_in(function("lambda: used.wait()", used=Sequence([used]), unused=unused)) == [used]
    assert handles_in(function("lambda: 1", used=used)) == []


def test_functions_count_as_a_level():
    work = Work(None)
    assert handles_in(nested(function("lambda: w", w=work), 2)) == [work]
    assert handles_in(nested(function("lambda: w", w=work), 3)) == []


@pytest.mark.parametrize("value", [1, "a", 1.5, True, (1, "a"), None])
def test_constants_can_be_keys(value):
    assert is_key(value)


@pytest.mark.parametrize("value", [slice(1), [1], {}, {1}, bytearray()])
def test_unhashable_values_cannot_be_keys(value):
    assert not is_key(value)


def test_a_method_of_a_handle_contains_it():
    work = Work(None)
    assert handles_in(function("lambda: wait()", wait=Attribute(work, "wait"))) == [work]


def test_definitions_of_functions_and_bound_methods():
    names = follow("def f(): pass\nclass A:\n    def g(self): pass\na = A()\nb = a.g").scope.names
    assert function_of(names["f"]).name == "f"
    assert function_of(names["b"]).name == "g"
    assert function_of(names["a"]) is None


def test_a_layer_and_an_optimizer_have_their_parameters_as_attributes():
    weight = tensor()
    assert parameters_of(Module(weight), "weight") is weight
    assert parameters_of(Module(None), "bias") is UNKNOWN
    assert parameters_of(Module(weight), "training") is None
    assert tensors_in(parameters_of(Optimizer([weight]), "param_groups")) == [weight]
    assert parameters_of(Optimizer([weight]), "defaults") is None


def test_events_of_an_object_that_was_used_before_may_be_recorded():
    program = follow("""
        class A:
            def __init__(self): self.e, self.kept = torch.cuda.Event(), {"f": [torch.cuda.Event()]}
        a = A()
        g = torch.cuda.Event()
    """)
    a, other = program.scope.names["a"], program.scope.names["g"]
    events = [a.attributes["e"], a.attributes["kept"].items["f"].items[0]]
    assert all(event.made for event in (*events, other))
    note_earlier_use(a)
    assert [event.made for event in events] == [None, None]
    assert other.made
