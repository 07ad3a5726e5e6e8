"""Functions in place of builtin ones."""

import copy
import functools
import inspect
import math
import pickle
from types import ModuleType

import pytest

from syncheck.instrument import named
from syncheck.instrument.patching import Patches


@pytest.fixture
def patches():
    made = Patches()
    yield made
    made.undo()


def root(value):
    return ("replaced", value)


def test_a_replaced_builtin_does_not_bind_to_objects(patches):
    patches.set(math, "sqrt", root)

    class Kind:
        compute = math.sqrt

    assert math.sqrt(4) == Kind().compute(4) == ("replaced", 4)


def test_a_replaced_builtin_passes_for_one(patches):
    patches.set(math, "sqrt", root)
    assert inspect.isbuiltin(math.sqrt)
    assert not inspect.isfunction(math.sqrt)


def test_a_replaced_builtin_is_pickled_by_its_name(patches):
    patches.set(math, "sqrt", lambda value: ("replaced", value))
    written = pickle.dumps((math.sqrt, functools.partial(math.sqrt, 4)))
    assert pickle.loads(written)[0] is math.sqrt
    assert copy.deepcopy(math.sqrt) is math.sqrt
    patches.undo()
    assert pickle.loads(written)[0](4) == 2


def test_a_replaced_builtin_can_be_replaced_again(patches):
    patches.set(math, "sqrt", lambda value: ("replaced", value))
    patches.set(math, "sqrt", lambda value: ("again", value))
    assert isinstance(math.sqrt, named.Builtin)
    assert math.sqrt(4) == ("again", 4)


def test_other_objects_are_replaced_as_they_are():
    assert named.in_place_of(root, root) is root
    assert named.in_place_of(math.sqrt, print) is print
    function = named.in_place_of(math.sqrt, root)
    assert named.in_place_of(math.sqrt, function) is function


class Owner:
    def method(self):
        return 1


def test_a_replaced_method_binds_and_is_pickled_by_its_name(patches):
    patches.set(Owner, "method", lambda owner: (owner, 2))
    owner = Owner()
    assert owner.method() == (owner, 2)
    assert pickle.loads(pickle.dumps(Owner.method)) is Owner.method


def test_a_function_that_is_found_keeps_its_name(patches):
    module = ModuleType("elsewhere")
    patches.set(module, "f", root)
    assert (root.__module__, root.__qualname__) == (__name__, "root")
