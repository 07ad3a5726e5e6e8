"""Batches that a thread loads on a side stream and passes on through a queue."""

import textwrap

import pytest

from syncheck.lint.patterns.queued_batches import can_matter, findings
from syncheck.lint.source_file import SourceFile
from tests.unit.lint.checking import context_of

LOADER = """
import threading
from queue import Queue

import torch


class Feeder:
    def __init__(self, source, device):
        self.source = source
        self.device = device
        self.side = torch.cuda.Stream()
        self.ready = Queue(4)
        self.stopped = threading.Event()
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self):
        for sample in self.source:
            {before}
            self.ready.put(self._upload(sample))

    def _upload(self, sample):
        if torch.is_tensor(sample):
            with torch.cuda.stream(self.side):
                {work}
        return [self._upload(part) for part in sample]

    def __next__(self):
        batch = self.ready.get()
        {after}
        {end}
"""
WORK = "return sample.to(self.device, non_blocking=True)"


def found(source, known=()):
    file = SourceFile("program.py", textwrap.dedent(source))
    said = [
        (f.rule.code, f.location.frame.line, str(f.level), [other.frame.line for other in f.related])
        for f in findings(context_of(file, known))
    ]
    assert not said or can_matter(source)
    return said


def loader(work=WORK, before="pass", after="pass", end="return batch"):
    return LOADER.format(work=work, before=before, after=after, end=end)


def codes(*args, **kwargs):
    return [code for code, *_ in found(loader(*args, **kwargs))]


def test_nothing_waits_for_a_batch_of_a_thread():
    assert found(loader()) == [("SYN105", 24, "warning", [29])]


@pytest.mark.parametrize(
    "after",
    [
        "torch.cuda.current_stream().wait_stream(self.side); batch.record_stream(torch.cuda.current_stream())",
        "self.side.synchronize()",
        "torch.cuda.synchronize()",
        "wait_for(batch)",
    ],
)
def test_a_wait_where_a_batch_is_taken_is_enough(after):
    assert codes(after=after) == []


def test_a_wait_where_a_batch_is_taken_does_not_protect_its_memory():
    assert codes(after="torch.cuda.current_stream().wait_stream(self.side)") == ["SYN201"]


def test_waits_for_threads_do_not_order_streams():
    assert codes(after="self.ready.task_done(); self.worker.join(); self.stopped.wait()") == ["SYN105"]


@pytest.mark.parametrize(
    "before", ["torch.cuda.synchronize()", "self.side.synchronize()", "x.item()", "self.barrier()"]
)
def test_a_wait_of_the_thread_may_cover_the_batch_before(before):
    assert codes(before=before) == []


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("return self.net(sample)", ["SYN105"]),
        ("return sample.to(self.device)", []),
        ("return sample.to(self.device, 'x', True)", ["SYN105"]),
        ("return sample.cuda(non_blocking=True).cpu()", []),
        ("print(len(sample))", []),
        ("return Batch(sample)", []),
    ],
)
def test_the_block_must_leave_work_running(work, expected):
    assert codes(work) == expected


@pytest.mark.parametrize(("end", "expected"), [("yield batch", 1), ("del batch", 0), ("return None", 0)])
def test_the_consumer_must_pass_the_batch_on(end, expected):
    assert len(codes(end=end)) == expected


def test_a_consumer_on_the_same_stream_is_ordered():
    assert (
        codes(end="return batch\n    def use(self):\n        with torch.cuda.stream(self.side):\n            pass")
        == []
    )


def test_a_known_race_is_not_reported_again():
    source = textwrap.dedent(loader())
    file = SourceFile("program.py", source)
    known = list(findings(context_of(file)))
    assert list(findings(context_of(file, known))) == []


THREAD = """
from threading import Thread
from queue import Queue
import torch

class Epoch(Thread):
    def __init__(self, code):
        super().__init__(daemon=True)
        self.code = code
        self.lanes = [torch.cuda.Stream() for _ in range(3)]
        self.out = Queue(2)
        self.start()

    def run(self):
        for slot in range(100):
            self.out.put((slot, self._work(slot)))

    def _work(self, slot):
        lane = self.lanes[slot % 3]
        {first}
        with torch.cuda.stream(lane):
            result = self.code(slot)
        {last}
        return result

    def __next__(self):
        slot, result = self.out.get()
        return result
"""


def test_a_thread_may_run_its_own_method():
    assert found(THREAD.format(first="lane.synchronize()", last="pass")) == [("SYN105", 21, "warning", [27])]
    assert found(THREAD.format(first="pass", last="lane.synchronize()")) == []


def test_a_wait_before_the_block_in_the_same_loop_may_cover_the_batch_before():
    looping = THREAD.replace("        return result\n\n", "        return result\n\n", 1)
    looping = looping.replace("        {first}\n", "        for _ in range(2):\n         {first}\n").replace(
        "        with torch.cuda.stream(lane):\n            result",
        "         with torch.cuda.stream(lane):\n            result",
    )
    assert found(looping.format(first="lane.synchronize()", last="pass")) == []


EVENTS = """
import threading
from queue import Full, Queue
import torch

def upload(batch, device, side):
    {first}
    with torch.cuda.stream(side):
        moved = apply(batch, lambda x: x.to(device, non_blocking={flag}))
        {inside}
    return moved, side.record_event()

def put(queue, item, stopped):
    while not stopped.is_set():
        queue.put(item, timeout=1.0)
        break

def resolved(x):
    return x.wait()

def fill(source, queue, device, side, stopped):
    for batch in source:
        put(queue, upload(apply(batch, resolved), device, side), stopped)

class Batches:
    def __init__(self, source, device):
        self.side = torch.cuda.Stream(device=device)
        self.queue = Queue(1)
        self.stopped = threading.Event()
        thread = threading.Thread(target=fill, args=(source, self.queue, device, self.side, self.stopped))
        thread.start()

    def __next__(self):
        batch, done = self.queue.get()
        done.wait()
        {after}
        return batch
"""


def memory(first="pass", inside="pass", after="pass", flag=True):
    return [code for code, *_ in found(EVENTS.format(first=first, inside=inside, after=after, flag=flag))]


def test_the_memory_of_a_batch_must_outlive_its_use():
    assert memory() == ["SYN201"]


@pytest.mark.parametrize(
    "statement",
    ["batch.record_stream(torch.cuda.current_stream())", "torch.cuda.synchronize()"],
)
def test_a_consumer_may_protect_the_memory(statement):
    assert memory(after=statement) == []


@pytest.mark.parametrize(
    "statement", ["side.wait_stream(used)", "side.wait_event(used)", "used.wait(side)", "side.synchronize()"]
)
def test_a_thread_may_wait_for_the_use_of_memory(statement):
    assert memory(first=statement) == []


def test_only_memory_that_the_stream_allocates_matters():
    assert memory(flag=False) == []
    assert found(EVENTS.replace("x.to(device, non_blocking={flag})", "buffer.copy_(x, non_blocking=True)")) == []


def test_a_generator_may_take_what_its_nested_function_loads():
    source = """
    from queue import Queue
    from threading import Thread
    import torch

    def batches(source):
        queue, side = Queue(2), torch.cuda.Stream()

        def work():
            for batch in source:
                with torch.cuda.stream(side):
                    queue.put(batch.cuda(non_blocking=True))

        Thread(target=work).start()
        for _ in source:
            yield queue.get()
    """
    assert [code for code, *_ in found(source)] == ["SYN105"]
    assert found(source.replace("Thread(target=work)", "run(work)")) == []
    assert found(source.replace("queue.get()", "other.get()")) == []
