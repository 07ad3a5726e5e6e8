"""Sampling windows on a stand-in GPU: patches between windows, and effects at window boundaries."""

import gc
import threading
import time
import weakref
from functools import partial

import pytest
import torch
import torch.cuda._gpu_trace as gpu_trace

import syncheck
from syncheck.config.options import Options
from syncheck.cuda import devices
from syncheck.cuda.backend import Cuda
from syncheck.filters.policy import Policy
from syncheck.instrument.torch_internals import current_dispatch_modes, engine
from syncheck.run.budget import Controller
from syncheck.run.process import new_session
from syncheck.run.sampled import SampledRun


@pytest.fixture
def run(on_cpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(devices, "current_device", lambda: 0)
    options = Options(budget=1.0)
    now = [0.0]
    policy = Policy(options)
    made = SampledRun(
        options,
        partial(new_session, options),
        policy,
        lambda *_: 0,
        "a stand-in",
        partial(Cuda, recorder="python"),
        clock=lambda: now[0],
        busy_clock=lambda: now[0],
    )
    made.now = now
    made.current = on_cpu
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def one_step():
        now[0] += 0.011 if made.sampler.is_open else 0.01
        optimizer.step()

    made.step = one_step
    return made


def hot_path():
    """Return all frequently called attributes that are patched while a program is watched."""
    kinds = (torch.cuda.Stream, torch.cuda.Event, torch.cuda.StreamContext, torch.Tensor, torch.UntypedStorage)
    kinds += (torch.cuda.CUDAGraph, time, torch.cuda, torch.accelerator)
    found = {(kind, name): value for kind in kinds for name, value in list(vars(kind).items()) if name != "__doc__"}
    found |= {
        name: getattr(gpu_trace, f"{name}Callbacks").__dict__.get("fire_callbacks") for name in devices.REGISTRIES
    }
    return found | {"Stream": torch.Stream, "Event": torch.Event, "engine": engine()}


def test_nothing_is_patched_between_windows(run):
    outside = hot_path()
    seen = set()
    with run.watching():
        before = hot_path()
        methods = dict(vars(torch.Stream)), dict(vars(torch.Event))
        for _ in range(60):
            if run.sampler.is_open:
                assert hot_path() != before
                assert len(current_dispatch_modes()) == 1
            else:
                after = hot_path()
                assert {key for key in before if before[key] is not after.get(key) != before[key]} == set()
                assert current_dispatch_modes() == []
                assert (dict(vars(torch.Stream)), dict(vars(torch.Event))) == methods
            seen.add(run.sampler.is_open)
            run.step()
    assert seen == {True, False}
    assert hot_path() == outside


def racing(run):
    """Write a tensor on one stream and read it on another without waiting."""
    run.current.handle = 0
    x = torch.ones(8)
    run.current.handle = 7
    y = x * 2
    run.current.handle = 0
    return x, y


def test_a_race_in_every_step_is_found_once_and_counted_across_windows(run):
    with run.watching():
        for _ in range(60):
            racing(run)
            run.step()
            if run.sampler.controller.number == 4:
                assert [finding.rule.code for finding in run.report().findings][:1] == ["SYN101"]
    share = run.sampler.controller.share()
    found = [finding for finding in run.report().findings if finding.rule.code == "SYN101"]
    assert [finding.count for finding in found] == [share.checked]
    assert share.windows > 1


def windows_with(run, outside, inside, steps=40):
    """Run steps, calling `outside` in each unchecked step and `inside` at the start of each checked one."""
    with run.watching():
        kept = None
        for _ in range(steps):
            if run.sampler.is_open:
                inside(kept)
            else:
                kept = outside()
            run.step()
    assert run.sampler.controller.share().windows > 1
    return run.report()


def test_memory_from_before_a_window_does_not_race(run):
    def read(pair):
        run.current.handle = 9
        pair[0] + pair[1]
        run.current.handle = 0

    report = windows_with(run, lambda: racing(run), read)
    assert report.findings == ()
    assert report.summary.operators > 0


def test_memory_from_an_earlier_window_does_not_race(run):
    kept = []  # (number of its window, tensor)
    n_read = 0
    with run.watching():
        for _ in range(60):
            number = run.sampler.controller.share().windows
            if run.sampler.is_open:
                if kept and kept[0][0] < number:
                    run.current.handle = 9
                    kept.pop()[1] * 3
                    run.current.handle = 0
                    n_read += 1
                kept[:] = [(number, torch.ones(4))]
            run.step()
    assert n_read > 2
    assert run.report().findings == ()


def test_a_clock_reading_from_before_a_window_is_not_compared(run):
    report = windows_with(run, time.time, lambda began: (torch.ones(4), time.time() - began))
    assert "SYN701" not in {finding.rule.code for finding in report.findings}


def test_the_programs_own_mode_survives_windows(run):
    from torch.utils.flop_counter import FlopCounterMode

    with run.watching():
        for _ in range(5):
            with FlopCounterMode(display=False) as counter:
                for _ in range(7):
                    torch.ones(2, 2) @ torch.ones(2, 2)
                    run.step()
            assert counter.get_total_flops() == 7 * 16
            assert [mode for mode in current_dispatch_modes() if not run.sampler.is_open] == []
    assert current_dispatch_modes() == []


def test_sessions_of_past_windows_are_released(run):
    sessions = weakref.WeakSet()
    kept = []
    with run.watching():
        for _ in range(200):
            sessions.add(run.session)
            kept += [torch.ones(4), time.time(), torch.cuda.Event] if run.sampler.is_open else []
            run.step()
    gc.collect()
    assert run.sampler.controller.share().windows > 10
    assert len(sessions) <= 2


def test_threads_started_in_a_window_keep_no_mode(run):
    from threading import Thread

    modes = []
    with run.watching():
        for _ in range(10):
            thread = Thread(target=lambda: modes.append((run.sampler.is_open, len(current_dispatch_modes()))))
            thread.start()
            thread.join()
            run.step()
    assert {is_open for is_open, _ in modes} == {True, False}
    assert {n_modes for _, n_modes in modes} == {0}


def test_a_check_block_inside_a_sampled_run_is_reported_as_incomplete(run):
    with run.watching(), syncheck.check() as report:
        for _ in range(8):
            racing(run)
            run.step()
    assert "because of the budget, only windows of the block were checked" in report.incomplete
    assert "SYN101" in {finding.rule.code for finding in run.report().findings}


# -- a program without steps


def wait(run, seconds):
    """Let the program run without a step; return whether a window is open afterwards."""
    run.now[0] += seconds
    run.sampler.tick()
    return run.sampler.is_open


def test_a_race_in_a_program_without_steps_is_found(run):
    with run.watching():
        seen = {wait(run, 0.5)}
        while run.sampler.controller.share().windows < 3:
            racing(run)
            seen.add(wait(run, 0.5))
    assert seen == {True, False}
    assert "SYN101" in {finding.rule.code for finding in run.report().findings}
    (note,) = [note for note in run.report().notes if note.startswith("budget")]
    assert "of processor time were checked" in note
    assert "no steps and no requests" in note


def test_nothing_is_patched_between_timed_windows(run):
    outside = hot_path()
    with run.watching():
        before = hot_path()
        modes = set()
        for _ in range(40):
            is_open = wait(run, 1.0)
            modes.add((is_open, len(current_dispatch_modes())))
            if not is_open:
                after = hot_path()
                assert {key for key in before if before[key] is not after.get(key) != before[key]} == set()
    assert modes == {(True, 1), (False, 0)}
    assert hot_path() == outside


def test_a_timed_window_neither_begins_nor_ends_in_a_backward_pass(run):
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            before = run.sampler.is_open
            wait(run, 3.0)
            seen.append((before, run.sampler.is_open))
            return gradient * 2

    def backward():
        Double.apply(torch.ones(2, requires_grad=True)).sum().backward()

    with run.watching():
        wait(run, 1.0)
        backward()
        while not wait(run, 1.0):
            pass
        backward()
    assert seen == [(False, False), (True, True)]


def test_both_units_appear_in_the_report(run):
    with run.watching():
        while not wait(run, 1.0):
            pass
        for _ in range(40):
            racing(run)
            run.step()
            run.sampler.tick()
    notes = [note for note in run.report().notes if note.startswith("budget")]
    assert len(notes) == 2
    assert "processor time" in notes[0]
    assert "steps were checked" in notes[1]


def test_findings_of_a_timed_window_are_reported_by_another_thread(run):
    reporters = []
    run.on_window = lambda: reporters.append(threading.current_thread().name)
    run.first_tick = 0.01
    with run.watching():
        while not reporters:
            run.now[0] += 0.001
            racing(run)
    assert reporters[0] == "syncheck-budget"


def test_a_race_that_only_a_rare_shape_triggers_is_found_at_its_first_step(run):
    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            for number in range(1000):
                if number > 500 and not run.sampler.is_open and not run.sampler.controller.units_left():
                    break  # only something new opens a window
                yield torch.zeros(4)
            yield torch.zeros(5)
            yield from (torch.zeros(4) for _ in range(8))

    run.sampler._controller = Controller(0.011)
    with run.watching():
        for batch in torch.utils.data.DataLoader(Rows(), batch_size=None):
            if batch.shape == (5,):
                assert run.sampler.is_open
                racing(run)
            run.step()
    assert "SYN101" in {finding.rule.code for finding in run.report().findings}
