"""Threads that wait for their own current stream before they read copies of another one."""

import pytest

from syncheck.lint.patterns import waits_of_threads
from tests.unit.lint.program import reported

SOURCE = """
import queue
import threading
import torch


class Writer:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.jobs = queue.Queue()
        self.done = torch.cuda.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def capture(self, x):
        host = torch.empty_like(x, device="cpu", pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(x, non_blocking=True)
            x.record_stream(self.stream)
            self.done.record(self.stream)
        self.jobs.put(host)

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            self.write(job)

    def write(self, job):
        torch.cuda.current_stream().synchronize()
        torch.save(job, "x.pt")
"""
WAIT, READ = "torch.cuda.current_stream().synchronize()", 'torch.save(job, "x.pt")'
LINE = 33


def found(*changes):
    return reported(SOURCE, changes, "what the thread gets")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([], LINE),
        ([(READ, "self.file.write(job.numpy().tobytes())")], LINE),
        ([(WAIT, f"if self.on_gpu:\n            {WAIT}")], LINE + 1),
        ([(WAIT, "stream = torch.cuda.current_stream()\n        stream.synchronize()")], LINE + 1),
    ],
)
def test_a_read_after_a_wait_for_the_threads_own_stream_is_reported(changes, line):
    assert found(*changes) == [("SYN301", line)]


@pytest.mark.parametrize(
    "changes",
    [
        [(WAIT, "self.done.synchronize()")],
        [(WAIT, "self.stream.synchronize()")],
        [(WAIT, "torch.cuda.synchronize()")],
        [(WAIT, f"self.done.synchronize()\n        {WAIT}")],
        [(WAIT, f"torch.cuda.set_stream(self.other)\n        {WAIT}")],
        [(WAIT, f"with torch.cuda.stream(self.other):\n            {WAIT}")],
        [(WAIT, "pass")],
        [("with torch.cuda.stream(self.stream):", "if True:")],  # on the default stream
        [("target=self.run", "target=self.other")],
        [(f"{WAIT}\n        {READ}", f"{READ}\n        {WAIT}")],
    ],
)
def test_other_waits_may_cover_the_copies(changes):
    assert found(*changes) == []


def test_a_file_without_threads_is_not_looked_at():
    assert waits_of_threads.can_matter(SOURCE)
    assert not waits_of_threads.can_matter(SOURCE.replace("Thread(", "Task("))
