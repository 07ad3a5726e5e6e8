"""Collectives and events of threads without Python frames: the native recorder agrees with the dispatch mode.

CPU tensors stand in for tensors of `cuda:0`, as in the tests of the mode. An extension issues the collectives from a
thread of its own, and makes the callbacks with which torch would report the events.
"""

import os
import random
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda import devices
from syncheck.cuda.trace_handlers import TraceHandlers
from syncheck.instrument.patching import Patches
from tests.unit.conftest import watched_gpu

DEFAULT, NCCL, OTHER = 0, 7, 8
"""Handles of streams."""
FORK, END, DONE = 101, 102, 103
"""Handles of events: the collective's start, its end, and that of its future."""
RECORD, WAIT, SYNC_STREAM, DELETE = 1, 2, 3, 4


def all_reduce(stream=NCCL, current=DEFAULT, *, end=END, done=DONE):
    """Return the callbacks of an all-reduce, in the order of ProcessGroupNCCL.cpp."""
    calls = [RECORD, FORK, current, WAIT, FORK, stream, RECORD, end, stream, RECORD, done, stream]
    return list(zip(*[iter(calls)] * 3, strict=True))


class Program:
    """What a program does, on a stand-in whose operators go through one of the recorders."""

    def __init__(self, gpu, extension, thread):
        self.gpu, self.extension, self.thread = gpu, extension, thread
        self.handled = []  # operators that were logged in Python, if this is watched

    def reduce(self, tensors, calls, *, fails=False):
        self.thread.reduce(tensors, [number for call in calls for number in call], fails)

    def call(self, *calls):
        self.thread.call([list(call) for call in calls])

    @contextmanager
    def on(self, handle):
        """Make a stream current."""
        before, self.gpu.current.handle = self.gpu.current.handle, handle
        try:
            yield
        finally:
            self.gpu.current.handle = before

    def begin_pass(self):
        """Begin a backward pass: memory that is allocated from now on belongs to it."""
        self.gpu.cuda.launches.gradients.begin(self.gpu.cuda.memory.next_ident())

    def findings(self):
        report = self.gpu.report()
        assert report.incomplete == ()
        return [(f.rule.code, f.message) for f in report.findings if f.rule.code != "SYN801"]


@contextmanager
def program(on_cpu, monkeypatch, engine_thread, extension):
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    patches = Patches()
    with watched_gpu(on_cpu, extension=extension) as gpu:
        cuda = gpu.cuda
        handlers = TraceHandlers(
            cuda.reporter, cuda.streams, cuda.events, cuda.host, cuda.pending_callbacks, cuda.captures
        )
        handlers.install(patches)
        cuda.gpu_trace.install(patches)
        for handle in (DEFAULT, NCCL, OTHER):
            cuda.streams.of(0, handle)
        made = Program(gpu, extension, engine_thread)
        x = torch.zeros(4)
        x.neg_().abs_()
        cuda.gpu_trace.around(made.reduce)([x], all_reduce())  # the first calls always go to the mode
        made.call((WAIT, DONE, DEFAULT))
        try:
            cuda.gpu_trace.inside.append(None)  # as during a backward pass
            cuda.gpu_trace.switch.value = True
            cuda.launches.gradients.begin(1 << 40)  # no memory belongs to the pass
            cuda.reporter.backward_site = cuda.reporter.sites.here()
            yield made
        finally:
            cuda.gpu_trace.inside.clear()
            cuda.gpu_trace.switch.value = False
            patches.undo()


@pytest.fixture(params=["python", "native"])
def either(request, on_cpu, monkeypatch, engine_thread, recorder):
    extension = recorder if request.param == "native" else None
    with program(on_cpu, monkeypatch, engine_thread, extension) as made:
        yield made


@pytest.fixture
def native(on_cpu, monkeypatch, engine_thread, recorder):
    with program(on_cpu, monkeypatch, engine_thread, recorder) as made:
        log_slowly = made.gpu.cuda.operators.log_slowly

        def log(dispatch, *args):
            made.handled.append(dispatch.plan.name)
            log_slowly(dispatch, *args)

        monkeypatch.setattr(made.gpu.cuda.operators, "log_slowly", log)
        yield made


def training(program, steps, *, joins=True, forks=True):
    """Copy gradients into a bucket, reduce it, and copy them out again."""
    bucket, gradient = torch.zeros(8), torch.ones(8)
    for _ in range(steps):
        bucket.neg_()
        program.reduce([bucket], all_reduce() if forks else all_reduce(current=OTHER))
        if joins:
            program.call((WAIT, DONE, DEFAULT))
        gradient.neg_()
        bucket.abs_()
    return bucket, gradient


def test_a_training_step_has_no_findings(either):
    training(either, 5)
    assert either.findings() == []


def test_the_steady_state_is_recorded_without_python(native):
    training(native, 3)
    handled = list(native.handled)
    training_state = native.extension.n_recorded()
    bucket, _ = training(native, 1)
    native.gpu.cuda.flush_calls()
    assert native.handled == handled
    for _ in range(4):
        bucket.neg_()
        native.reduce([bucket], all_reduce())
        native.call((WAIT, DONE, DEFAULT))
    assert native.handled == handled
    assert native.extension.n_recorded() > training_state
    assert native.findings() == []


def test_a_missing_join_is_a_race(either):
    training(either, 3, joins=False)
    assert {code for code, _ in either.findings()} == {"SYN103"}


def test_a_missing_fork_is_a_race(either):
    training(either, 3, forks=False)
    assert {code for code, _ in either.findings()} == {"SYN103"}


def test_memory_used_in_python_in_between_is_not_passed_on(either):
    bucket = torch.zeros(8)
    for _ in range(3):
        bucket.neg_()
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
    either.call((RECORD, 300, DEFAULT))
    torch.nonzero(bucket)  # the mode logs this one, on the default stream
    either.call((WAIT, 300, NCCL), (WAIT, 300, OTHER))
    either.reduce([bucket], [(WAIT, 300, NCCL), (RECORD, END, NCCL)])
    assert either.findings()


@pytest.mark.parametrize("ends", [(), ((SYNC_STREAM, NCCL, 0),)], ids=["recorded", "logged"])
def test_an_event_that_ends_during_the_collective_is_known_until_its_end(either, ends):
    bucket = torch.zeros(8)
    for _ in range(4):
        bucket.neg_()
        either.reduce([bucket], [*all_reduce(), *ends, (DELETE, FORK, 0)])
        either.call((WAIT, DONE, DEFAULT))
    bucket.neg_()
    assert either.findings() == []


def test_memory_of_two_storages_is_left_to_the_mode(either):
    x, _ = training(either, 2)
    y = torch.from_dlpack(x)
    y.neg_()
    either.reduce([x], all_reduce())
    y.neg_()
    either.reduce([x], all_reduce())
    either.call((WAIT, DONE, DEFAULT))
    assert {code for code, _ in either.findings()} == {"SYN103"}


def test_an_event_recorded_by_an_object_orders_only_what_came_before_that_record(either):
    """As in `Event.record`, whose hook suppresses the callback."""
    x, _ = training(either, 2)
    x.neg_()
    either.call((RECORD, 300, DEFAULT))
    events = either.gpu.cuda.events
    record = events._record(lambda event, stream=None: None)
    event = SimpleNamespace(cuda_event=300, _syncheck_event=(either.gpu.cuda.reporter.token, events.of_handle(300)))
    either.gpu.cuda.streams.of_object = lambda stream: either.gpu.cuda.streams.of(0, OTHER)
    record(event)
    either.reduce([x], [(WAIT, 300, NCCL), (RECORD, END, NCCL)])
    either.reduce([x], all_reduce())
    assert {code for code, _ in either.findings()} == {"SYN103"}


def test_an_event_recorded_again_in_python_orders_only_what_came_before_that_record(either):
    bucket = torch.zeros(8)
    for _ in range(2):
        bucket.neg_()
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
    bucket.neg_()
    either.call((RECORD, 300, DEFAULT))
    either.gpu.cuda.events.on_record(either.gpu.cuda.events.of_handle(300))
    with either.gpu.cuda.reporter.locked_monitor() as monitor:
        monitor.record(either.gpu.cuda.events.of_handle(300), either.gpu.cuda.streams.of(0, OTHER), 0)
    either.reduce([bucket], [(WAIT, 300, NCCL), (RECORD, END, NCCL)])
    assert either.findings()


def test_a_collective_that_fails_raises_its_error_and_later_ones_are_recorded(native):
    bucket, _ = training(native, 2)
    native.reduce([bucket], all_reduce())
    with pytest.raises(RuntimeError, match="the collective failed"):
        native.reduce([bucket], all_reduce(), fails=True)
    native.call((WAIT, DONE, DEFAULT))
    bucket.neg_()
    native.reduce([bucket], all_reduce())
    assert native.findings() == []


def test_memory_of_the_running_backward_pass_is_left_to_the_mode(native):
    training(native, 2)
    native.begin_pass()
    n_handled = len(native.handled)
    training(native, 3)
    assert native.handled[n_handled:] == ["c10d::allreduce_"] * 3
    assert native.findings() == []


def test_a_collective_that_synchronizes_is_logged_by_the_mode(native):
    bucket, _ = training(native, 2)
    n_handled = len(native.handled)
    native.reduce([bucket], [*all_reduce(), (SYNC_STREAM, NCCL, 0)])
    bucket.neg_()
    assert native.handled[n_handled:] == ["c10d::allreduce_"]
    assert native.findings() == []


def test_memory_that_a_graph_may_use_is_no_longer_passed_on(native):
    bucket, _ = training(native, 3)
    native.gpu.cuda.memory.owners.clear()
    n_handled = len(native.handled)
    native.reduce([bucket], all_reduce())
    assert native.handled[n_handled:] == ["c10d::allreduce_"]


def test_a_block_freed_after_a_collective_is_freed_for_the_session(either):
    for _ in range(4):
        bucket = torch.zeros(8)
        bucket.neg_()
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
        del bucket
        torch.zeros(8)
    assert either.findings() == []
    assert either.gpu.monitor.named("free")


N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "60"))


def use(program, rng, tensors):
    """Use a tensor on the default stream, in an operator that C++ records or in one that the mode logs."""
    tensor = rng.choice(tensors)
    torch.nonzero(tensor) if rng.random() < 0.1 else tensor.neg_()


def use_elsewhere(program, rng, tensors):
    """Use a tensor on another stream, which most of the time waits for the default stream first, and is waited for."""
    if rng.random() < 0.9:
        program.call((RECORD, 201, DEFAULT), (WAIT, 201, OTHER))
    with program.on(OTHER):
        rng.choice(tensors).neg_()
    if rng.random() < 0.9:
        program.call((RECORD, 202, OTHER), (WAIT, 202, DEFAULT))


def replace(program, rng, tensors):
    tensors[rng.randrange(len(tensors))] = torch.ones(8)


def begin_pass(program, rng, tensors):
    if rng.random() < 0.2:
        program.begin_pass()


def reduce(program, rng, tensors):
    """Reduce some of the tensors; most of the time after the default stream, which waits for the result."""
    program.reduce(
        rng.sample(tensors, rng.randrange(1, 3)), all_reduce(NCCL, DEFAULT if rng.random() < 0.95 else OTHER)
    )
    if rng.random() < 0.95:
        program.call((WAIT, DONE, DEFAULT))


def random_program(program, seed):
    """Use three tensors, most of the time in order."""
    rng = random.Random(seed)
    tensors = [torch.zeros(8) for _ in range(3)]
    steps = (use, use, use, use_elsewhere, reduce, reduce, reduce, replace, begin_pass)
    for _ in range(rng.randrange(10, 60)):
        rng.choice(steps)(program, rng, tensors)


def outcome(on_cpu, monkeypatch, engine_thread, extension, seed):
    """Return the findings without the names of tensors, which depend on when a finding is made."""
    with program(on_cpu, monkeypatch, engine_thread, extension) as made:
        random_program(made, seed)
        return sorted((code, re.sub("`tensor.*?`", "x", message)) for code, message in made.findings())


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, N_PROGRAMS, 20))
def test_both_recorders_find_the_same_in_random_programs(on_cpu, monkeypatch, engine_thread, recorder, start):
    for seed in range(start, start + 20):
        expected = outcome(on_cpu, monkeypatch, engine_thread, None, seed)
        assert outcome(on_cpu, monkeypatch, engine_thread, recorder, seed) == expected, seed
