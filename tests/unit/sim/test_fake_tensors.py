"""Tensors without memory that a program makes in a FakeTensorMode of its own."""

from contextlib import ExitStack

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from syncheck.instrument.patching import Patches
from syncheck.sim import fake_tensors


@pytest.fixture(autouse=True)
def patches():
    patches = Patches()
    fake_tensors.install(patches)
    yield
    patches.undo()


def test_a_mode_that_the_program_enters_makes_them():
    assert not fake_tensors.is_active()
    with FakeTensorMode():
        assert fake_tensors.is_active()
    assert not fake_tensors.is_active()


def test_a_mode_that_other_code_enters_does_not():
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode())
        assert not fake_tensors.is_active()


def test_the_mode_of_the_program_is_entered_as_ever():
    mode = FakeTensorMode()
    with mode as entered:
        assert entered is mode
