"""Memory that a single stream owns again."""

import pytest

from syncheck.cuda.owners import Owners
from syncheck.cuda.streams import NOT_SOLE


class Follows:
    """Monitor in which these (stream, allocation) pairs are ordered after all other work."""

    def __init__(self, *pairs):
        self.pairs = pairs

    def is_ordered_after_all(self, stream, allocation):
        return (stream, allocation) in self.pairs


@pytest.fixture
def changes():
    return []


@pytest.fixture
def owners(changes):
    made = Owners()
    made.on_change = lambda allocation, stream: changes.append((allocation, stream))
    return made


def test_a_stream_ordered_after_all_others_owns_the_memory(owners, changes):
    owners.add(Follows((3, 10), (3, 12)), 3, [(10, 0, True), (10, 1, False), (11, 0, True), (12, 0, True)], {12})
    assert changes == [(10, 3)]
    assert [owners[allocation] for allocation in (10, 11, 12)] == [3, NOT_SOLE, NOT_SOLE]


def test_ownership_ends_when_another_stream_uses_the_memory(owners, changes):
    owners.add(Follows((3, 10)), 3, [(10, 0, True)], {})
    owners.use(3, 10)
    assert owners[10] == 3
    owners.use(4, 10)
    assert owners[10] == NOT_SOLE
    assert changes == [(10, 3), (10, NOT_SOLE)]


def test_a_use_of_memory_without_a_known_owner_is_reported(owners, changes):
    owners.use(4, 10)
    assert changes == [(10, NOT_SOLE)]


def test_dropping_all_owners_is_reported(owners):
    cleared = []
    owners.on_clear = lambda: cleared.append(True)
    owners.clear()
    assert cleared == [True]


def test_ownership_ends_with_the_memory_or_when_cleared(owners, changes):
    owners.add(Follows((3, 10), (3, 11)), 3, [(10, 0, True), (11, 0, True)], {})
    changes.clear()
    owners.forget(10)
    owners.clear()
    assert changes == [(11, NOT_SOLE)]
    assert owners[10] == owners[11] == NOT_SOLE


def test_the_monitor_is_not_queried_without_a_listener():
    owners = Owners()
    owners.add(None, 3, [(10, 0, True)], {})
    assert owners[10] == NOT_SOLE
