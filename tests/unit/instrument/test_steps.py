"""`--steps`: a window between two optimizer steps."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist

from syncheck.findings import NO_STEPS
from syncheck.instrument import collectives
from syncheck.instrument.steps import TrainingSteps, Window, job_followed
from syncheck.instrument.torch_internals import loader_iterator
from syncheck.ranks import writer


class Watched:
    """Records the steps during which it watched."""

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

    incomplete = note


def optimizer() -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)
    return torch.optim.SGD([weight], lr=0.1)


def steps_watched(window: tuple[int, int | None], n_steps: int, watched: Watched) -> list[int]:
    """Return the steps, counted from 0, that ran while watched."""
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


def test_a_window_that_never_began_is_reported():
    watched = Watched()
    assert steps_watched((100, 120), 3, watched) == []
    assert watched.notes == [NO_STEPS, "--steps begins with step 100, but only 3 steps ran"]


def test_nothing_is_counted_after_the_run():
    watched = Watched()
    steps_watched((0, 1), 2, watched)
    optimizer().step()
    assert not watched.is_on


class Units:
    """Records its calls."""

    def __init__(self):
        self.calls = []
        self.keys = []

    def ended(self, key=None):
        self.calls.append("step")
        self.keys.append(key)

    def pause(self):
        self.calls.append("pause")

    def begin_phase(self):
        self.calls.append("epoch")

    def expect_steps(self):
        self.calls.append("optimizer")

    def input_arrived(self, shapes):
        """Ignore the shapes, which have their own tests."""


def loader(length):
    return torch.utils.data.DataLoader(torch.arange(length))


def test_an_epoch_begins_with_the_loader_that_drives_the_steps():
    units, train, test, first = Units(), loader(3), loader(2), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for _ in range(2):
            for _ in train:
                first.step()
            list(test)
    epoch = ["pause"] + ["step"] * 3 + ["pause"]
    assert units.calls == [*epoch, "pause", "epoch", *epoch[1:]]


def test_an_evaluation_between_steps_is_not_an_epoch():
    units, train, test, first = Units(), loader(6), loader(2), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for number, _ in enumerate(train):
            first.step()
            if number % 2:
                with torch.no_grad():
                    list(test)
    assert units.calls == ["pause"] + ["step", "step", "pause"] * 3


def test_a_loader_in_each_step_is_not_an_epoch():
    units, train, first = Units(), loader(3), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for _ in range(5):
            next(iter(train))
            first.step()
    assert units.calls == ["pause"] + ["step"] * 5


def test_an_unhashable_loader_is_supported():
    class UnhashableLoader(torch.utils.data.DataLoader):
        __hash__ = None

        def __eq__(self, other):
            return False

    units = Units()
    with TrainingSteps(units, lambda _: None).watching():
        assert len(list(UnhashableLoader(torch.arange(3)))) == 3
    assert units.calls == ["pause"]


def test_steps_are_keyed_by_their_call_site():
    units, first = Units(), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for _ in range(2):
            first.step()
        first.step()
    assert units.keys[0] == units.keys[1] != units.keys[2]


def test_another_optimizer_counts_once_the_first_is_gone():
    units, first = Units(), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        first.step()
        del first
        second = optimizer()
        second.step()
    assert units.calls == ["step", "optimizer", "step"]


@pytest.mark.parametrize(
    ("kind", "name"), [(torch.utils.data.DataLoader, "__iter__"), (torch.optim.Optimizer, "__init__")]
)
def test_loader_and_optimizer_patches_are_removed(kind, name):
    before = getattr(kind, name)
    with TrainingSteps(Units(), lambda _: None).watching():
        assert getattr(kind, name) is not before
    assert getattr(kind, name) is before


class Shapes(Units):
    """Also records arriving shapes."""

    def input_arrived(self, shapes):
        self.calls.append(tuple(shape for shape, _ in shapes))


def batches(n_rows, size=4, **options):
    return torch.utils.data.DataLoader(torch.zeros(n_rows, 2), batch_size=size, **options)


@pytest.mark.parametrize("n_workers", [0, 1])
def test_shapes_of_training_batches_arrive(n_workers):
    units, first = Shapes(), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for _ in batches(10, num_workers=n_workers):
            first.step()
    assert units.calls == ["pause", "step", ((4, 2),), "step", ((2, 2),), "step"]


def test_shapes_of_an_evaluation_do_not_arrive():
    units, first = Shapes(), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for number, _ in enumerate(batches(12)):
            first.step()
            if number == 0:
                list(batches(7, size=3))
    assert units.calls == ["pause", "step", "pause", ((4, 2),), "step", ((4, 2),), "step"]


def test_shapes_of_all_batches_of_a_step_arrive():
    units, first = Shapes(), optimizer()
    with TrainingSteps(units, lambda _: None).watching():
        for number, _ in enumerate(batches(15)):
            if number % 2:
                first.step()
    assert units.calls == ["pause", "step", ((4, 2),), ((3, 2),), "step"]


def test_iterator_patches_are_removed():
    kind = loader_iterator()
    before = kind.__next__
    with TrainingSteps(Units(), lambda _: None).watching():
        assert kind.__next__ is not before
    assert kind.__next__ is before


@pytest.mark.parametrize(("rank", "n_steps", "is_reported"), [(-1, 0, False), (-1, 1, True), (0, 0, True)])
def test_a_process_that_only_starts_ranks_needs_no_steps(rank, n_steps, is_reported, monkeypatch, tmp_path):
    monkeypatch.setattr(writer, "active", None)
    writer.begin(tmp_path, writer.Process(rank, 2))
    watched = Watched()
    steps_watched((2, 3), n_steps, watched)
    assert (NO_STEPS in watched.notes) == is_reported


def test_ranks_that_start_outside_of_a_window_are_followed(monkeypatch):
    joined, notes = [], []
    monkeypatch.setattr(collectives, "join_job", lambda: joined.append(1))
    with job_followed(notes.append):
        subprocess.run([sys.executable, "-c", ""], check=True)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
    assert joined == [1]
    assert len(notes) == 1
