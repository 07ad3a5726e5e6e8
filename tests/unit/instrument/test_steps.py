"""`--steps`: a window between two optimizer steps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from syncheck.instrument.steps import Window


class Watched:
    """Keeps the steps during which it watched."""

    def __init__(self) -> None:
        self.is_on = False
        self.finished = 0
        self.notes: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.is_on = True
        yield
        self.is_on = False

    def finish(self) -> None:
        self.finished += 1

    def note(self, text: str) -> None:
        self.notes.append(text)


def optimizer() -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)
    return torch.optim.SGD([weight], lr=0.1)


def steps_watched(window: tuple[int, int | None], n_steps: int, watched: Watched) -> list[int]:
    """Return the steps, from 0, that ran under the watch."""
    first, second = optimizer(), optimizer()
    seen = []
    with Window(window, watched, watched).watching():
        for step in range(n_steps):
            if watched.is_on:
                seen.append(step)
            first.step()
            second.step()  # only the first optimizer counts
    assert not watched.is_on
    return seen


@pytest.mark.parametrize(
    ("window", "expected"), [((2, 4), [2, 3]), ((0, 1), [0]), ((3, None), [3, 4, 5]), ((0, None), [0, 1, 2, 3, 4, 5])]
)
def test_a_window_is_a_slice_of_the_steps(window, expected):
    watched = Watched()
    assert steps_watched(window, 6, watched) == expected
    assert watched.notes == []


def test_a_window_that_never_began_is_told():
    watched = Watched()
    assert steps_watched((100, 120), 3, watched) == []
    assert watched.notes == ["nothing was checked: only 3 of 100 steps were made"]


def test_nothing_is_counted_afterwards():
    watched = Watched()
    steps_watched((0, 1), 2, watched)
    optimizer().step()
    assert not watched.is_on
