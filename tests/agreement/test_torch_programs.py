"""Random torch programs: without findings, all schedules give one result; the accesses of a finding have two orders.

They run on virtual GPUs in this process and use views, frees, `record_stream`, copies to and from pinned memory,
backward passes and all kinds of waits. `make agree` tries thousands.
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck.instrument.findings import NewFindings
from syncheck.instrument.sites import SiteTable
from syncheck.rules.model import Severity
from syncheck.sanitizer.session import Session
from syncheck.sim.backend import Simulator
from syncheck.witness.record import REQUEST, Request
from syncheck.witness.schedule import Hold, Schedule
from tests.permanent import exempt_living_objects

N_PROGRAMS = int(os.environ.get("SYNCHECK_AGREE", "30"))
SEEDS = range(4)
SIZE = 8

numbers = st.integers(0, 2)
step = st.one_of(
    st.tuples(st.just("new"), numbers, numbers),
    st.tuples(st.just("compute"), numbers, numbers, numbers),
    st.tuples(st.just("change"), numbers, numbers, numbers),
    st.tuples(st.just("part"), numbers, numbers),
    st.tuples(st.just("free"), numbers),
    st.tuples(st.just("record_stream"), numbers, numbers),
    st.tuples(st.sampled_from(["wait_stream", "wait_stream", "copy_stream"]), numbers, numbers),
    st.tuples(st.just("record"), numbers, numbers),
    st.tuples(st.just("wait"), numbers, numbers),
    st.tuples(st.just("upload"), numbers, numbers),
    st.tuples(st.just("download"), numbers, numbers),
    st.tuples(st.sampled_from(["read", "write"]), numbers),
    st.tuples(st.sampled_from(["item", "synchronize", "synchronize_event", "backward"]), numbers, numbers),
)


class Program:
    """A program whose steps act on three streams, three tensors, three pinned buffers and three events."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self):
        """Run the program and return its output."""
        self.streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        self.tensors = [torch.full((SIZE,), float(n), device="cuda") for n in range(3)]
        self.buffers = [torch.full((SIZE,), float(n)).pin_memory() for n in range(3)]
        self.events = [torch.cuda.Event() for _ in range(3)]
        torch.cuda.synchronize()
        self.output, self.count = [], 0
        for name, *numbers in self.steps:
            self.count += 1
            getattr(self, name)(*numbers)
        torch.cuda.synchronize()
        return self.output + [None if t is None else t.tolist() for t in (*self.tensors, *self.buffers)]

    def new(self, stream, tensor):
        with torch.cuda.stream(self.streams[stream]):
            self.tensors[tensor] = torch.full((SIZE,), float(self.count), device="cuda")

    def compute(self, stream, target, source):
        if self.tensors[source] is not None:
            with torch.cuda.stream(self.streams[stream]):
                self.tensors[target] = self.tensors[source] * 3 + self.count

    def change(self, stream, target, source):
        one, other = self.tensors[target], self.tensors[source]
        if one is not None and other is not None:
            with torch.cuda.stream(self.streams[stream]):
                one.mul_(3).add_(other)

    def part(self, stream, target):
        if self.tensors[target] is not None:
            with torch.cuda.stream(self.streams[stream]):
                self.tensors[target][: SIZE // 2].add_(self.count)

    def free(self, tensor):
        self.tensors[tensor] = None

    def record_stream(self, tensor, stream):
        if self.tensors[tensor] is not None:
            self.tensors[tensor].record_stream(self.streams[stream])

    def wait_stream(self, stream, other):
        self.streams[stream].wait_stream(self.streams[other])

    def copy_stream(self, stream, other):
        """Wait both ways, as around a block on a side stream."""
        self.wait_stream(stream, other)
        self.wait_stream(other, stream)

    def record(self, event, stream):
        self.events[event].record(self.streams[stream])

    def wait(self, event, stream):
        self.streams[stream].wait_event(self.events[event])

    def upload(self, stream, number):
        if self.tensors[number] is not None:
            with torch.cuda.stream(self.streams[stream]):
                self.tensors[number].copy_(self.buffers[number], non_blocking=True)

    def download(self, stream, number):
        if self.tensors[number] is not None:
            with torch.cuda.stream(self.streams[stream]):
                self.buffers[number].copy_(self.tensors[number], non_blocking=True)

    def read(self, buffer):
        self.output.append(self.buffers[buffer].tolist())

    def write(self, buffer):
        self.buffers[buffer].fill_(float(self.count))

    def item(self, stream, tensor):
        if self.tensors[tensor] is not None:
            with torch.cuda.stream(self.streams[stream]):
                self.output.append(self.tensors[tensor].sum().item())

    def synchronize(self, stream, _):
        self.streams[stream].synchronize()

    def synchronize_event(self, event, _):
        self.events[event].synchronize()

    def backward(self, stream, tensor):
        if self.tensors[tensor] is not None:
            with torch.cuda.stream(self.streams[stream]):
                weight = torch.ones(SIZE, device="cuda", requires_grad=True)
                (weight * self.tensors[tensor]).square().sum().backward()
                self.tensors[tensor] = weight.grad


def run(program, schedule=None, pairs=()):
    """Run a program. Return its output, the findings that have a pair of accesses, and the order of these accesses."""
    exempt_living_objects()
    found, sites = NewFindings(), SiteTable()
    session = Session(lambda rule: True, "virtual GPUs", found.add)
    if schedule is not None:
        os.environ[REQUEST] = Request(os.devnull, tuple(pairs)).as_variable()
    simulator = Simulator(1, session, sites, session.note, found, lambda: None, schedule=schedule)
    with simulator.watching():
        output = program()
        simulator.finish()
    findings = [finding for finding in session.report(sites).findings if finding.pair is not None]
    order = simulator.deferral.observations.record.order if simulator.deferral is not None else []
    return repr(output), findings, order


@pytest.mark.slow
@settings(max_examples=N_PROGRAMS)
@given(steps=st.lists(step, min_size=3, max_size=14))
def test_programs_without_findings_have_one_result_and_findings_have_two_orders(steps):
    program = Program(steps)
    usual, findings, _ = run(program)
    assert run(program, Schedule(0))[0] == usual
    if not findings:
        for seed in SEEDS:
            assert run(program, Schedule(0, seed=seed))[0] == usual
    for finding in findings:
        assert finding.level is not Severity.ADVICE
        check_two_orders(program, finding.pair)


def check_two_orders(program, pair):
    until = pair.later if pair.later.stream else None
    _, _, order = run(program, Schedule(0, (Hold(pair.earlier, until),)), [pair])
    if pair.later.stream and str(pair.later) in order:
        assert order.index(str(pair.later)) < order.index(str(pair.earlier))
