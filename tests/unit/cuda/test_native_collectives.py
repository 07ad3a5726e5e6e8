"""Collectives and events of threads without Python frames: the native recorder agrees with the dispatch mode.

CPU tensors stand in for tensors of `cuda:0`, as in the tests of the mode. An extension issues the collectives from a
thread of its own, and makes the callbacks with which torch would report the events.
"""

import os
import random
import re
from contextlib import contextmanager

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
RECORD, WAIT, SYNC_STREAM = 1, 2, 3


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
        x.fill_(1).mul_(2)
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
        bucket.mul_(2)
        program.reduce([bucket], all_reduce() if forks else all_reduce(current=OTHER))
        if joins:
            program.call((WAIT, DONE, DEFAULT))
        gradient.mul_(2)
        bucket.mul_(3)
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
        bucket.mul_(2)
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
        bucket.mul_(2)
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
    either.call((RECORD, 300, DEFAULT))
    torch.nonzero(bucket)  # the mode logs this one, on the default stream
    either.call((WAIT, 300, NCCL), (WAIT, 300, OTHER))
    either.reduce([bucket], [(WAIT, 300, NCCL), (RECORD, END, NCCL)])
    assert either.findings()


def test_an_event_recorded_again_in_python_orders_only_what_came_before_that_record(either):
    bucket = torch.zeros(8)
    for _ in range(2):
        bucket.mul_(2)
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
    bucket.mul_(2)
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
    bucket.mul_(2)
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
    bucket.mul_(2)
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
        bucket.mul_(2)
        either.reduce([bucket], all_reduce())
        either.call((WAIT, DONE, DEFAULT))
        del bucket
        torch.zeros(8)
    assert either.findings() == []
    assert either.gpu.monitor.named("free")


STREAMS = (DEFAULT, NCCL, OTHER)
N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "40"))


def use(program, rng, tensors):
    """Use a tensor in an operator that C++ records, or in one that the mode logs, on any stream."""
    with program.on(rng.choice(STREAMS)):
        tensor = rng.choice(tensors)
        torch.nonzero(tensor) if rng.random() < 0.3 else tensor.mul_(2)


def use_event(program, rng, tensors):
    program.call((rng.choice((RECORD, WAIT)), rng.randrange(201, 204), rng.choice(STREAMS)))


def replace(program, rng, tensors):
    tensors[rng.randrange(len(tensors))] = torch.ones(8)


def begin_pass(program, rng, tensors):
    if rng.random() < 0.2:
        program.begin_pass()


def reduce(program, rng, tensors):
    """Reduce some of the tensors, and most of the time wait for the result."""
    current = rng.choice((DEFAULT, OTHER))
    program.reduce(rng.sample(tensors, rng.randrange(1, 3)), all_reduce(NCCL, current))
    if rng.random() < 0.8:
        program.call((WAIT, DONE, current))


def random_program(program, seed):
    """Use three tensors and three events on three streams."""
    rng = random.Random(seed)
    tensors = [torch.zeros(8) for _ in range(3)]
    for _ in range(rng.randrange(5, 40)):
        step = rng.choice((use, use, use, use_event, use_event, replace, begin_pass, reduce, reduce))
        step(program, rng, tensors)


def outcome(on_cpu, monkeypatch, engine_thread, extension, seed):
    """Return the findings without the names of tensors, which depend on when a finding is made."""
    with program(on_cpu, monkeypatch, engine_thread, extension) as made:
        random_program(made, seed)
        return sorted((code, re.sub("`tensor.*?`", "x", message)) for code, message in made.findings())


@pytest.mark.parametrize("start", range(0, N_PROGRAMS, 20))
def test_both_recorders_find_the_same_in_random_programs(on_cpu, monkeypatch, engine_thread, recorder, start):
    for seed in range(start, start + 20):
        expected = outcome(on_cpu, monkeypatch, engine_thread, None, seed)
        assert outcome(on_cpu, monkeypatch, engine_thread, recorder, seed) == expected, seed
