"""Attributes are replaced during a run and restored afterwards."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from syncheck.instrument.patching import Patches


@pytest.fixture
def patches():
    return Patches()


def test_undo_restores_everything_latest_first(patches):
    class Owner:
        a = 1

    assert patches.set(Owner, "a", 2) == 1
    patches.set(Owner, "a", 3)
    patches.set(Owner, "new", 4)
    patches.remove(Owner, "a")
    assert not hasattr(Owner, "a")
    patches.undo()
    assert Owner.a == 1
    assert not hasattr(Owner, "new")


def test_undo_does_not_leave_an_inherited_attribute_on_the_subclass(patches):
    class Base:
        a = 1

    class Derived(Base):
        pass

    assert patches.set(Derived, "a", 2) == 2
    patches.undo()
    assert "a" not in vars(Derived)
    assert Derived.a == 1


@pytest.fixture
def modules(monkeypatch):
    made = {name: ModuleType(name) for name in ("torch.patched", "torch.other", "program")}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return SimpleNamespace(**{name.rpartition(".")[2]: module for name, module in made.items()})


def test_an_object_is_replaced_in_all_torch_modules(patches, modules):
    old, new = object(), object()
    modules.patched.f = modules.other.g = modules.program.f = old
    patches.everywhere({old: new})
    assert (modules.patched.f is new, modules.other.g is new, modules.program.f is old) == (True, True, True)
    patches.undo()
    assert modules.patched.f is modules.other.g is old


def test_undo_also_restores_modules_that_got_the_replacement_later(patches, modules):
    old, new = object(), object()
    modules.patched.f = old
    patches.everywhere({old: new})
    modules.other.late = new
    patches.undo()
    assert modules.other.late is old


def test_final_actions_run_once_after_everything_is_restored(patches):
    class Owner:
        a = 1

    seen = []
    patches.set(Owner, "a", 2)
    patches.on_undo(lambda: seen.append(("first", Owner.a)))
    patches.on_undo(lambda: seen.append(("last", Owner.a)))
    patches.undo()
    patches.undo()
    assert seen == [("last", 1), ("first", 1)]


def test_known_and_new_occurrences_are_found_again(patches, modules):
    old, new = object(), object()
    modules.patched.f = old
    for _ in range(2):
        patches.everywhere({old: new})
        assert modules.patched.f is new
        patches.undo()
        assert modules.patched.f is old
    modules.other.g = old
    modules.patched.f = "another"
    patches.everywhere({old: new})
    assert (modules.patched.f, modules.other.g is new) == ("another", True)
    patches.undo()
    assert modules.other.g is old


def test_one_pass_finds_what_was_there_before_it_and_what_was_imported_during_it(patches, modules, monkeypatch):
    first, second, third, new = object(), object(), object(), object()
    modules.patched.f, modules.other.g = first, second
    with patches.in_one_pass():
        patches.everywhere({first: new})
        patches.everywhere({second: new})
        late = ModuleType("torch.late")
        late.h = third
        monkeypatch.setitem(sys.modules, "torch.late", late)
        patches.everywhere({third: new})
    assert modules.patched.f is modules.other.g is late.h is new
    patches.undo()
    assert (modules.patched.f, modules.other.g, late.h) == (first, second, third)


def test_a_module_that_grows_is_searched_again_after_a_pass(patches, modules):
    old, new = object(), object()
    with patches.in_one_pass():
        patches.everywhere({object(): object()})
        modules.patched.f = old
    patches.everywhere({old: new})
    assert modules.patched.f is new
    patches.undo()


def test_a_module_that_is_imported_anew_is_searched_again(patches, modules, monkeypatch):
    old, new = object(), object()
    modules.patched.f = old
    patches.everywhere({old: new})
    patches.undo()
    again = ModuleType("torch.patched")
    again.f = old
    monkeypatch.setitem(sys.modules, "torch.patched", again)
    patches.everywhere({old: new})
    assert again.f is new
    patches.undo()
    assert again.f is old
