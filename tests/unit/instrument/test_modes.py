"""Entering and leaving dispatch modes anywhere in the stack."""

import pytest
import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from syncheck.instrument.modes import enter_mode, leave_mode, without_modes
from syncheck.instrument.torch_internals import current_dispatch_modes


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_leaving_a_mode_keeps_the_others_in_order(place):
    modes = [Counting() for _ in range(3)]
    for mode in modes:
        mode.__enter__()
    leave_mode(modes[place])
    others = [mode for mode in modes if mode is not modes[place]]
    assert [id(mode) for mode in current_dispatch_modes()] == list(map(id, others))
    torch.ones(1)
    for mode in reversed(others):
        mode.__exit__(None, None, None)
    assert current_dispatch_modes() == []
    assert [mode.seen for mode in modes] == [0 if mode is modes[place] else 1 for mode in modes]


def test_a_mode_is_entered_below_the_programs_modes():
    own = Counting()
    with Counting() as outer:
        with Counting() as inner:
            enter_mode(own)
            assert current_dispatch_modes() == [own, outer, inner]
        assert current_dispatch_modes() == [own, outer]
    assert current_dispatch_modes() == [own]
    leave_mode(own)
    assert current_dispatch_modes() == []


def test_leaving_a_mode_that_was_not_entered_does_nothing():
    with Counting() as mode:
        leave_mode(Counting())
        assert current_dispatch_modes() == [mode]


class CountingToo(Counting):
    """A mode of another class."""


def test_modes_of_a_class_are_removed_for_a_block():
    with Counting() as outer, CountingToo() as own, Counting() as inner:
        with without_modes(CountingToo):
            assert current_dispatch_modes() == [outer, inner]
            torch.ones(1)
        assert current_dispatch_modes() == [outer, own, inner]
    assert (outer.seen, own.seen, inner.seen) == (1, 0, 1)


def flags():
    """Return torch's records of whether a mode is active, by which `torch.compile` decides whether to compile."""
    names = [name for name in vars(_python_dispatch) if name.startswith("_is_in_")]
    return {getattr(_python_dispatch, name) for name in names}


@pytest.fixture
def inactive():
    """Torch's records, in which no mode is active."""
    if not flags():
        pytest.skip("this version of torch keeps no record of active modes")
    assert flags() == {False}
    return flags()


def test_a_mode_entered_below_the_programs_mode_may_outlive_it(inactive):
    own = Counting()
    with Counting(), Counting():
        enter_mode(own)
        assert flags() == {True}
    assert flags() == {True}
    leave_mode(own)
    assert flags() == inactive


def test_a_mode_left_below_the_programs_modes_is_not_recorded(inactive):
    own = Counting()
    enter_mode(own)
    with Counting(), Counting():
        leave_mode(own)
        assert flags() == {True}
    assert flags() == inactive


def test_a_mode_entered_twice_by_the_program_keeps_torchs_records(inactive):
    own, mode = Counting(), Counting()
    with mode, mode:
        enter_mode(own)
        leave_mode(own)
        enter_mode(own)
    assert current_dispatch_modes() == [own]
    leave_mode(own)
    assert flags() == inactive


def test_a_mode_that_enters_itself_without_torchs_method_is_kept():
    class Direct(Counting):
        def __enter__(self):
            _python_dispatch._push_mode(self)

        def __exit__(self, *_):
            _python_dispatch._pop_mode()

    own = Counting()
    with Direct(), Counting() as inner:
        enter_mode(own)
        assert current_dispatch_modes()[0] is own
        leave_mode(own)
        assert current_dispatch_modes()[-1] is inner
    assert current_dispatch_modes() == []
