"""Many Python threads at once: the program still works, no finding is lost, and the trace can be replayed.

The programs switch threads every 10 microseconds, far more often than the interpreter does by default.
"""

import json

import pytest

from syncheck.run.trace.replaying import replay
from syncheck.sanitizer.session import Session
from tests import warm

BUSY = """
import gc
import sys
import threading

import torch

N, ROUNDS = {threads}, {rounds}
sys.setswitchinterval(1e-5)
torch.set_num_threads(1)
failures = []
threading.excepthook = lambda args: failures.append(repr(args.exc_value))


def work(index):
    for step in range(ROUNDS):
        stream = torch.cuda.Stream(priority=-(step % 2))
        made = torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream):
            x = torch.ones(16, device="cuda")
            y = (x * index + step).cpu()
            made.record()
            pinned = torch.empty(16, pin_memory=True)
            pinned.copy_(x, non_blocking=True)
        made.query()
        torch.cuda.current_stream().wait_stream(stream)
        made.synchronize()
        stream.synchronize()
        assert y[0] == index + step
        assert pinned.sum() == 16
        del x, y, stream, made
        if step % 5 == 0:
            gc.collect()


threads = [threading.Thread(target=work, args=(i,)) for i in range(N)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert failures == [], failures
torch.cuda.synchronize()
assert torch.cuda.memory_allocated() == 0, torch.cuda.memory_allocated()
"""


def run_traced(source, folder):
    (folder / "program.py").write_text(source)
    options = ("--backend", "sim", "--output-format", "json", "--output", "report.json", "--trace", "run.trace")
    done = warm.run("syncheck", "run", *options, "program.py", folder=folder, limit=280)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    report = json.loads((folder / "report.json").read_text())
    replayed = replay([folder / "run.trace"], lambda backend: Session(lambda _: True, backend))
    return done.returncode, report, replayed


@pytest.mark.parametrize(("threads", "rounds"), [(8, 8), (64, 2)])
def test_a_correct_program_with_many_busy_threads_has_no_findings(threads, rounds, tmp_path):
    status, report, replayed = run_traced(BUSY.format(threads=threads, rounds=rounds), tmp_path)
    assert [finding for finding in report["findings"] if finding["level"] in {"error", "warning"}] == []
    assert report["incomplete"] == []
    assert replayed.incomplete == ()
    assert len(replayed.findings) == len(report["findings"])
    assert status == 0


RACE = """
def work_{index}():
    x = torch.ones(16, device="cuda")
    for _ in range(3):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            y = x * 2
        y.record_stream(torch.cuda.current_stream())
        x.record_stream(side)
"""
RACES = """
import sys
import threading

import torch

sys.setswitchinterval(1e-5)
torch.set_num_threads(1)
{functions}

threads = [threading.Thread(target=work) for work in ({names})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_the_race_in_each_thread_is_found(tmp_path):
    functions = "\n".join(RACE.format(index=index) for index in range(8))
    source = RACES.format(functions=functions, names=", ".join(f"work_{index}" for index in range(8)))
    _, report, replayed = run_traced(source, tmp_path)
    racing = {number for number, line in enumerate(source.splitlines(), 1) if "y = x * 2" in line}
    assert {finding["line"] for finding in report["findings"] if finding["rule"] == "SYN101"} == racing
    assert [(f.rule.code, f.location.frame.line) for f in replayed.findings] == [
        (finding["rule"], finding["line"]) for finding in report["findings"]
    ]


HAND_OVER = """
import asyncio
import os
import queue
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import torch

sys.setswitchinterval(1e-5)
scores = torch.rand(64, device="cuda")
host = torch.empty(64, pin_memory=True)
host.copy_(scores, non_blocking=True)
done = torch.cuda.current_stream().record_event()


class Box:
    value = None


box, items, table, made = Box(), [], {{}}, deque()
flag = False
event, early = threading.Event(), threading.Event()
condition, semaphore, barrier = threading.Condition(), threading.Semaphore(0), threading.Barrier(2)
lock, future, ready = threading.Lock(), Future(), Future()
ready.set_result(1)
permits, pool = threading.BoundedSemaphore(1), ThreadPoolExecutor(1)
permits.acquire()
pool.submit(int).result()
channel, plain, bounded = queue.Queue(), queue.SimpleQueue(), queue.Queue(1)
lock.acquire()
reading, writing = os.pipe()


def work():
    global flag
    early.set()
    done.synchronize()
    {give}


def take():
    while not flag:
        time.sleep(0.01)


worker = threading.Thread(target=work, name="worker")
worker.start()
time.sleep({pause})
{take}
print(host.sum())
worker.join()
"""

ORDERING = {
    "join": ("pass", "worker.join()"),
    "event": ("event.set()", "event.wait()"),
    "queue": ("channel.put(1)", "channel.get()"),
    "bounded queue": ("bounded.put(1); bounded.put(2)", "bounded.get()"),
    "simple queue": ("plain.put(1)", "plain.get()"),
    "condition": ("\n    with condition: condition.notify()", "\nwith condition: condition.wait(0.01)"),
    "lock": ("lock.release()", "lock.acquire()"),
    "semaphore": ("semaphore.release()", "semaphore.acquire()"),
    "barrier": ("barrier.wait()", "barrier.wait()"),
    "future": ("future.set_result(1)", "future.result()"),
    "pipe": ("os.write(writing, b'x')", "os.read(reading, 1)"),
    "flag": ("flag = True", "\nwhile not flag: time.sleep(0.01)"),
    "branch": ("flag = True", "assert flag"),
    "list": ("items.append(1)", "items[0]"),
    "dictionary": ("table['x'] = 1", "table['x']"),
    "deque": ("made.append(1)", "made.popleft()"),
    "attribute": ("box.value = host", "host = box.value"),
    "global": ("flag = host", "host = flag"),
    "length": ("items.append(1)", "print(len(items))"),
    "still alive": ("pass", "\nwhile worker.is_alive(): time.sleep(0.01)"),
    "pool": ("future.set_result(1)", "ThreadPoolExecutor(1).submit(future.result).result()"),
    "task": ("future.set_result(1)", "asyncio.run(asyncio.to_thread(future.result))"),
    "another function": ("flag = True", "take()"),
    "bounded semaphore": ("permits.release()", "permits.acquire()"),
    "exception": ("future.set_exception(ValueError())", "future.exception()"),
    "done": ("future.set_result(1)", "\nwhile not future.done(): time.sleep(0.01)"),
    "task of a pool": ("pool.submit(done.synchronize).result(); future.set_result(1)", "future.result()"),
    "loop": ("flag = True", "\nfor _ in range(100):\n    scores = scores + 1\n    if flag: break"),
}


@pytest.mark.parametrize("way", ORDERING)
def test_operations_that_may_order_two_threads_do(way, simulate):
    give, take = ORDERING[way]
    report = simulate(HAND_OVER.format(give=give, take=take, pause=0.2))
    assert [finding["rule"] for finding in report["findings"] if finding["level"] in {"error", "warning"}] == []


NOT_ORDERING = {
    "nothing": "pass",
    "an event that was set before": "early.wait()",
    "a join that ran into its timeout": "worker.join(0.05)",
    "a wait that ran into its timeout": "event.wait(0.05)",
    "work of its own": "\nfor i in range(3): scores = scores * 2",
    "a block": "\nwith torch.no_grad(): scores = scores + 1",
    "a semaphore of its own": "semaphore.release(); semaphore.acquire()",
    "another future": "ready.result()",
    "another task": "\ntask = pool.submit(int)\ntask.result()",
    "an acquire that ran into its timeout": "semaphore.acquire(timeout=0.05)",
}


@pytest.mark.parametrize("way", NOT_ORDERING)
def test_operations_that_do_not_order_two_threads_do_not(way, simulate):
    source = HAND_OVER.format(give="time.sleep(0.4)", take=NOT_ORDERING[way], pause=0.2)
    report = simulate(source)
    found = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert [finding["rule"] for finding in found] == ["SYN301"]
    assert "in thread `MainThread`" in found[0]["message"]


POOL = """
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import torch

scores = torch.rand(64, device="cuda")
host = torch.empty(64, pin_memory=True)
pool, others = ThreadPoolExecutor(1), ThreadPool(1)


def read():
    {pause}
    return host.sum()


{warm}
host.copy_(scores, non_blocking=True)
{before}
task = {submit}
{after}
print(task.{result}())
"""
WAIT = "torch.cuda.current_stream().synchronize()"
POOLS = {
    "a new thread": ("", "pool.submit(read)", "result"),
    "an idle thread": ("pool.submit(int).result()", "pool.submit(read)", "result"),
    "an idle thread of multiprocessing": ("others.apply(int)", "others.apply_async(read)", "get"),
    "a thread that has worked": (
        "pool.submit(torch.ones, 4, device='cuda').result()", "pool.submit(read)", "result"),
}  # fmt: skip


@pytest.mark.parametrize("kind", POOLS)
def test_a_task_is_ordered_after_work_before_its_submission(kind, simulate):
    warm, submit, result = POOLS[kind]
    report = simulate(POOL.format(warm=warm, submit=submit, result=result, before=WAIT, after="", pause=""))
    assert [finding["rule"] for finding in report["findings"] if finding["level"] == "error"] == []


@pytest.mark.parametrize("kind", ["a new thread", "an idle thread", "a thread that has worked"])
def test_a_task_is_not_ordered_after_work_that_follows_its_submission(kind, simulate):
    warm, submit, result = POOLS[kind]
    source = POOL.format(warm=warm, submit=submit, result=result, before="", after=WAIT, pause="\n    time.sleep(0.3)")
    found = [finding for finding in simulate(source)["findings"] if finding["level"] == "error"]
    assert [finding["rule"] for finding in found] == ["SYN301"]


FINALIZERS = """
import gc
import threading

import torch


class Owner:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        thread = threading.Thread(target=torch.cuda.current_stream)
        thread.start()
        thread.join()


x = torch.ones(4, device="cuda")
gc.freeze()
for threshold in range(1, 200):
    gc.disable()
    gc.collect()
    Owner()
    gc.set_threshold(threshold)
    gc.enable()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x + threshold
    gc.set_threshold(700)
gc.collect()
"""


def test_a_finalizer_can_wait_for_a_thread_whenever_garbage_is_collected(simulate):
    assert "SYN101" in [finding["rule"] for finding in simulate(FINALIZERS)["findings"]]
