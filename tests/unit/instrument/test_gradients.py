"""Gradients that cross streams."""

import pytest

from syncheck.instrument.gradients import Gradients


class Monitor:
    def __init__(self):
        self.recorded = []

    def record_stream(self, allocation, view, stream, site):
        self.recorded.append((allocation, stream, site))


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def gradients():
    made = Gradients()
    made.begin(10)
    return made


def test_a_gradient_used_by_another_node_on_another_stream_is_protected(gradients, monitor):
    gradients.protect(monitor, 1, 2, 2, [(11, 0, True)])
    gradients.protect(monitor, 2, 3, 3, [(11, 0, False)])
    assert monitor.recorded == [(11, 3, 0)]


@pytest.mark.parametrize(("node", "stream"), [(1, 3), (2, 2)])
def test_a_gradient_used_on_the_same_stream_or_node_is_not_protected(gradients, monitor, node, stream):
    gradients.protect(monitor, 1, 2, 2, [(11, 0, True)])
    gradients.protect(monitor, node, stream, stream, [(11, 0, False)])
    assert monitor.recorded == []


def test_memory_from_before_the_pass_is_not_a_gradient(gradients, monitor):
    gradients.protect(monitor, 1, 2, 2, [(10, 0, True)])
    gradients.protect(monitor, 2, 3, 3, [(10, 0, False)])
    assert monitor.recorded == []


def test_a_new_pass_starts_over(gradients, monitor):
    gradients.protect(monitor, 1, 2, 2, [(11, 0, True)])
    gradients.begin(20)
    gradients.protect(monitor, 2, 3, 3, [(11, 0, False)])
    assert monitor.recorded == []


def test_a_stream_made_current_by_a_hook_is_not_protected(gradients, monitor):
    gradients.protect(monitor, 1, 2, 2, [(11, 0, True)])
    gradients.protect(monitor, 2, 3, 4, [(11, 0, False)])
    assert monitor.recorded == []
