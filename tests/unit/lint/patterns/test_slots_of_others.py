"""Waits for the event of another slot."""

import pytest

from syncheck.lint.patterns import slots_of_others
from tests.unit.lint.checking import found_by

SOURCE = """
class Ring:
    def __init__(self, n):
        self.free = [torch.cuda.Event() for _ in range(n)]
    def pull(self, i):
        k = i % self.n
        {wait}
        {fill}
        self.loaded[k].record(self.stream)
    def use(self, x, i):
        k = i % self.n
        y = self.net(x, self.slots[k])
        self.free[k].record(self.main)
        return y
"""
OTHER = "self.stream.wait_event(self.free[(k + 1) % self.n])"
FILL = "self.slots[k].copy_(self.host[i], non_blocking=True)"


def found(wait=OTHER, fill=FILL):
    return found_by(slots_of_others, SOURCE.format(wait=wait, fill=fill))


@pytest.mark.parametrize(
    "fill", [FILL, "for to, source in zip(self.slots[k], self.host[i]):\n            to.copy_(source)"]
)
@pytest.mark.parametrize("wait", [OTHER, "self.free[k - 1].wait(self.stream)"])
def test_the_event_of_a_neighbour_is_reported(wait, fill):
    assert found(wait, fill) == [("SYN105", 7)]


@pytest.mark.parametrize(
    "given",
    [
        {"wait": "self.stream.wait_event(self.free[k])"},
        {"wait": f"self.stream.wait_event(self.free[k]); {OTHER}"},
        {"wait": f"{OTHER}; self.stream.wait_stream(self.main)"},
        {"wait": "self.stream.wait_event(self.other[(k + 1) % self.n])"},
        {"wait": "self.stream.wait_event(self.free[j])"},  # another index, of which nothing is known
        {"wait": "pass"},
        {"fill": "self.slots[(k + 1) % self.n].copy_(self.host[i])"},
        {"fill": "self.others[k].copy_(self.host[i])"},
        {"wait": FILL, "fill": OTHER},
    ],
)
def test_the_right_event_and_other_slots_are_not_reported(given):
    assert found(**given) == []
