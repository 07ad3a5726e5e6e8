"""Streams that are current where a thread is started."""

import pytest

from syncheck.lint.patterns import streams_of_starters
from tests.unit.lint.checking import found_by

STARTED = """
import threading, torch
class Writer:
    def save(self):
        thread = threading.Thread(target=self.persist)
        with torch.cuda.stream(self.side):
            {start}
    def persist(self):
        {enter}
        self.fetch()
    def fetch(self):
        {work}
"""
PARTS = {"start": "thread.start()", "enter": "pass", "work": "self.page.copy_(self.x, non_blocking=True)"}


def found(**parts):
    return found_by(streams_of_starters, STARTED.format(**(PARTS | parts)))


@pytest.mark.parametrize("start", ["thread.start()", "threading.Thread(target=self.persist).start()"])
def test_a_thread_that_is_started_in_a_block_is_reported(start):
    assert found(start=start) == [("SYN503", 7)]


@pytest.mark.parametrize("work", ["torch.tanh(self.x)", "self.keep(torch.stack(self.pages))"])
def test_a_thread_that_computes_is_reported(work):
    assert found(work=work) == [("SYN503", 7)]


@pytest.mark.parametrize(
    "parts",
    [
        {"start": "pass"},
        {"work": "torch.save(self.page, path)"},
        {"work": "torch.cuda.set_device(0)"},
        {"start": "timer.start()"},
        {"start": "threading.Thread(target=unknown).start()"},
        {"enter": "torch.cuda.set_stream(self.side)"},
        {"work": "with torch.cuda.stream(self.side): self.page.copy_(self.x)"},
        {"work": "self.log.write(3)"},
    ],
)
def test_other_starts_and_threads_that_enter_a_stream_are_not_reported(parts):
    assert found(**parts) == []


def test_a_function_of_the_file_can_be_the_target():
    source = """
def work(x):
    x.cuda()
def f(x, side):
    with torch.cuda.stream(side):
        Thread(target=work, args=(x,)).start()
"""
    assert found_by(streams_of_starters, source) == [("SYN503", 6)]
    assert (
        found_by(streams_of_starters, source.replace("    x.cuda()", "    with torch.cuda.stream(s): x.cuda()")) == []
    )


POOL = """
def f(clips, side, pool):
    def stage(clip):
        {work}
    with torch.cuda.stream(side):
        return {start}  # ThreadPoolExecutor
"""


@pytest.mark.parametrize(
    ("work", "start", "is_found"),
    [
        ("return clip.to(0, non_blocking=True)", "list(pool.map(stage, clips))", True),
        ("return clip.to(0, non_blocking=True)", "pool.submit(stage, clips)", True),
        ("return clip.to(0, non_blocking=True)", "list(map(stage, clips))", False),
        ("return clip.to(0, non_blocking=True)", "frame.map(stage, clips)", False),
        ("return len(clip)", "pool.submit(stage, clips)", False),
        ("with torch.cuda.stream(side): return clip.cuda()", "pool.submit(stage, clips)", False),
    ],
)
def test_a_task_that_is_submitted_in_a_block_is_reported(work, start, is_found):
    assert found_by(streams_of_starters, POOL.format(work=work, start=start)) == [("SYN503", 6)] * is_found


ACTOR = """
class Actor({base}):
    def __init__(self, stream):
        torch.cuda.set_stream(stream)
    def run(self):
        {run}
        self.serve()
    def serve(self):
        self.y = self.x.to(0, non_blocking=True)
"""


def test_a_thread_that_sets_its_stream_in_the_constructor_is_reported():
    assert found_by(streams_of_starters, ACTOR.format(base="threading.Thread", run="pass")) == [("SYN503", 4)]
    assert found_by(streams_of_starters, ACTOR.format(base="Worker", run="pass # Thread")) == []
    run = "torch.cuda.set_stream(self.stream)"
    assert found_by(streams_of_starters, ACTOR.format(base="Thread", run=run)) == []
