"""Signals in a checked program: handlers can use GPUs and raise where the program can catch the exception."""

import os
import signal

import pytest

from syncheck.system import signals
from tests.unit.test_cli import RACE, started

WORKING = """
import signal, time, torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.ones(4, 8, device="cuda")

def work():
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()

work()
"""


def run(tmp_path, source, *options):
    (tmp_path / "train.py").write_text(source)
    return started("run", "--backend", "sim", *options, "train.py", cwd=tmp_path)


def test_a_handler_can_use_the_gpu(tmp_path):
    source = f"""{WORKING}
import io
saved = []

def checkpoint(number, frame):
    norm = sum(p.square().sum() for p in model.parameters()).sqrt()
    torch.save(model.state_dict(), io.BytesIO())
    saved.append((norm.device, norm.item()))
    signal.setitimer(signal.ITIMER_REAL, 0.003 + len(saved) % 7 * 0.001)

signal.signal(signal.SIGALRM, checkpoint)
signal.setitimer(signal.ITIMER_REAL, 0.003)
deadline = time.monotonic() + 200
while len(saved) < 60 and time.monotonic() < deadline:
    work()
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(saved) >= 60, {{str(device) for device, _ in saved}}, all(value > 0 for _, value in saved))
"""
    done = run(tmp_path, source, "--ignore", "SYN801")  # a program that constantly saves also constantly waits
    assert done.stdout == "True {'cuda:0'} True\n", done.stderr
    assert done.returncode == 0
    assert "no findings" in done.stderr


def test_no_interrupt_is_lost_or_leaves_partial_state(tmp_path):
    source = f"""{WORKING}
def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
caught = lost = 0
for turn in range(150):
    deadline = time.monotonic() + 20
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + turn % 17 * 0.0005)
        while True:  # with a condition, Python 3.12 and 3.13 jump back outside of the `try`
            kept = [torch.ones(4, device="cuda") for _ in range(20)]
            event = torch.cuda.Event()
            event.record()
            del kept, event
            if time.monotonic() > deadline:
                break
        lost += 1
    except KeyboardInterrupt:
        caught += 1
work()
print(caught, lost)
"""
    done = run(tmp_path, source)
    assert done.stdout == "150 0\n", done.stderr
    assert "Exception ignored" not in done.stderr
    assert "no findings" in done.stderr


def test_a_loop_that_calls_only_hooks_can_be_interrupted(tmp_path):
    source = f"""{WORKING}
turns = 0
signal.setitimer(signal.ITIMER_REAL, 0.1)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    while turns < 20_000:
        data = data * 1
        turns += 1
except KeyboardInterrupt:
    print("interrupted", turns < 15_000)
"""
    assert run(tmp_path, source).stdout == "interrupted True\n"


def test_a_debugger_of_the_program_stays_in_place(tmp_path):
    source = f"""{WORKING}
import sys
lines = []
def trace(frame, event, argument):
    if frame.f_globals is globals():
        lines.append(event)
        return trace
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
sys.settrace(trace)
for _ in range(20):
    work()
print(sys.gettrace() is trace, lines.count("call") >= 20, lines.count("line") >= 60)
sys.settrace(None)
for _ in range(20):
    work()
signal.setitimer(signal.ITIMER_REAL, 0)
work()
print(sys.gettrace(), sys.getprofile())
"""
    assert run(tmp_path, source).stdout == "True True True\nNone None\n"


def test_a_blocking_call_can_be_interrupted(tmp_path):
    source = f"""{WORKING}
import threading
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for wait in (threading.Event().wait, lambda: time.sleep(100), lambda: torch.futures.Future().wait):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        wait()
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted")
"""
    assert run(tmp_path, source).stdout == "interrupted\n" * 3


def test_a_program_sees_its_own_handlers(tmp_path):
    source = f"""{WORKING}
def own(number, frame):
    print("own", frame.f_code.co_name)

print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(signal.signal(signal.SIGALRM, own) is signal.SIG_DFL, signal.getsignal(signal.SIGALRM) is own)
signal.raise_signal(signal.SIGALRM)
print(signal.signal(signal.SIGALRM, signal.SIG_IGN) is own, signal.getsignal(signal.SIGALRM) is signal.SIG_IGN)
print(signal.signal(signal.SIGINT, signal.default_int_handler) is signal.default_int_handler)
"""
    expected = "True\nTrue True\nown <module>\nTrue True\nTrue\n"
    assert run(tmp_path, source).stdout == expected


def test_an_interrupted_program_shows_pythons_own_traceback(tmp_path):
    done = run(tmp_path, f"{WORKING}signal.raise_signal(signal.SIGINT)\n")
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert "signals.py" not in done.stderr


def test_handlers_are_restored_after_the_block():
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    functions = signal.signal, signal.getsignal
    with signals.held(), signals.held():
        signal.signal(signal.SIGUSR1, print)
        assert {n: signal.getsignal(n) for n in before} == before | {signal.SIGUSR1: print}
    assert signal.getsignal(signal.SIGUSR1) is print
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert (signal.signal, signal.getsignal) == functions
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminated_program_leaves_its_report(tmp_path, number):
    source = f"import os, signal, time\n{RACE}\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n"
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
    try:
        done = run(tmp_path, source, "--trace", "run.trace")
    finally:
        signal.signal(number, before)
    assert done.returncode == -number
    assert "SYN101" in done.stderr
    assert "SYN101" in started("replay", "run.trace", cwd=tmp_path).stdout


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_handler_that_raises_does_not_interrupt_the_report(tmp_path, ending):
    source = f"""import os, signal, threading, time
{RACE}
def fail(number, frame):
    if is_ending:
        raise RuntimeError("a worker was killed")

def send():
    while True:
        time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

is_ending = False
signal.signal(signal.SIGUSR1, fail)
threading.Thread(target=send, daemon=True).start()
is_ending = True
while True:
    try:
        {ending}
    except RuntimeError:
        pass
"""
    done = run(tmp_path, source)
    assert "SYN101" in done.stderr
    assert "Traceback" not in done.stderr


def test_signals_are_dropped_during_a_block_except_interrupts():
    called = []
    before = signal.signal(signal.SIGUSR1, lambda *_: called.append(1))
    try:
        with signals.held(), signals.dropped():
            signal.raise_signal(signal.SIGUSR1)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert called == []
        signal.raise_signal(signal.SIGUSR1)
        assert called == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_program_that_ignores_a_hangup_continues(tmp_path):
    ending = "signal.signal(1, signal.SIG_IGN)\nos.kill(os.getpid(), 1)\nprint('on')\n"
    assert run(tmp_path, f"import os, signal\n{WORKING}{ending}").stdout == "on\n"


@pytest.mark.parametrize("handler", ["SIG_DFL", "default_int_handler"])
def test_an_armed_timer_ends_with_its_program(tmp_path, handler):
    armed = f"signal.signal(signal.SIGALRM, signal.{handler})\nsignal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)\n"
    done = run(tmp_path, f"import signal\n{RACE}{armed}")
    assert done.returncode == 1
    assert "SYN101" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_forked_child_defers_handlers_inside_a_held_block():
    called = []
    hook = {"__name__": "syncheck.sim.hook", "signal": signal, "called": called}
    exec("def run():\n    signal.raise_signal(signal.SIGUSR1)\n    return list(called)", hook)
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGUSR1, lambda *_: called.append(1))
            with signals.held():
                inside = hook["run"]()
            os._exit(len(inside))
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
