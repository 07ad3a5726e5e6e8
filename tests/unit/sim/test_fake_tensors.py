"""Tensors without memory in a FakeTensorMode of the program."""

from contextlib import ExitStack

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.instrument.patching import Patches
from syncheck.sim import fake_tensors


@pytest.fixture(autouse=True)
def patches():
    patches = Patches()
    fake_tensors.install(patches)
    yield patches
    patches.undo()


def test_a_mode_entered_by_the_program_makes_fake_tensors():
    assert not fake_tensors.is_active()
    with FakeTensorMode():
        assert fake_tensors.is_active()
    assert not fake_tensors.is_active()


def test_a_mode_entered_by_other_code_does_not():
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode())
        assert not fake_tensors.is_active()


def test_entering_the_mode_still_returns_it():
    mode = FakeTensorMode()
    with mode as entered:
        assert entered is mode


def test_a_mode_entered_in_an_earlier_check_does_not_slow_down_this_one(patches):
    with FakeTensorMode():
        pass
    assert fake_tensors.Modes.were_entered
    patches.undo()
    fake_tensors.install(patches)
    assert not fake_tensors.Modes.were_entered
