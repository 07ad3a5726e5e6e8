"""How long a tensor lives in a program that is only read."""

import gc

import pytest

from syncheck.lint.lifetimes import by_reference_count


def test_the_collector_of_cycles_is_off_inside():
    assert gc.isenabled()
    with by_reference_count():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_comes_back_after_an_error_and_stays_off_where_it_was():
    with pytest.raises(ZeroDivisionError), by_reference_count():
        raise ZeroDivisionError
    assert gc.isenabled()
    with by_reference_count(), by_reference_count():
        pass
    assert gc.isenabled()
