"""Many Python threads at once: nothing breaks in the program, no finding is lost, and the trace can be replayed.

The programs switch threads every 10 microseconds, as the interpreter never does by itself.
"""

import json

import pytest

from syncheck.run.trace import codec
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
    replayed = codec.replay(folder / "run.trace", lambda backend: Session(lambda _: True, backend))
    return done.returncode, report, replayed


@pytest.mark.parametrize(("threads", "rounds"), [(8, 8), (64, 2)])
def test_threads_that_make_everything_at_once_are_checked_in_peace(threads, rounds, tmp_path):
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


def test_the_race_of_each_thread_is_found(tmp_path):
    functions = "\n".join(RACE.format(index=index) for index in range(8))
    source = RACES.format(functions=functions, names=", ".join(f"work_{index}" for index in range(8)))
    _, report, replayed = run_traced(source, tmp_path)
    racing = {number for number, line in enumerate(source.splitlines(), 1) if "y = x * 2" in line}
    assert {finding["line"] for finding in report["findings"] if finding["rule"] == "SYN101"} == racing
    assert [(f.rule.code, f.place.frame.line) for f in replayed.findings] == [
        (finding["rule"], finding["line"]) for finding in report["findings"]
    ]
