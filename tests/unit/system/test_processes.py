"""Processes, on systems that have forks and signals, and on those that do not."""

import os
import signal
import subprocess
import sys

import pytest

from syncheck.system import processes


def test_a_process_is_alive_until_it_ends():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert processes.is_alive(child.pid)
        child.communicate(b"\n")
    assert not processes.is_alive(child.pid)


def test_one_that_was_not_waited_for_has_ended():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(child)
    os.waitpid(child, 0)


def test_windows_is_not_asked(monkeypatch):
    """To ask with signal 0 would end the process there."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("it was asked"))
    assert processes.is_alive(1)


def test_a_process_is_killed_by_what_there_is(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    processes.kill(7)
    monkeypatch.delattr(signal, "SIGKILL")
    processes.kill(7)
    assert sent == [(7, 9), (7, signal.SIGTERM)]


def test_without_forks_nothing_follows_them(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork")
    processes.after_fork_in_child(lambda: pytest.fail("there was a fork"))


@pytest.mark.parametrize("has_pthread_kill", [True, False])
def test_a_signal_reaches_the_main_thread(monkeypatch, has_pthread_kill):
    got = []
    before = signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    if not has_pthread_kill:
        monkeypatch.delattr(signal, "pthread_kill")
    try:
        import threading

        processes.send_to_main_thread(signal.SIGTERM, threading.main_thread().ident)
        for _ in range(100):
            if got:
                break
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got == [signal.SIGTERM]


def test_an_interrupt_ends_windows_with_its_status(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    ended = []

    class EndedError(Exception):
        pass

    def exit_now(status):
        ended.append(status)
        raise EndedError

    with pytest.raises(EndedError):
        processes.end_by_interrupt(exit_now)
    assert ended == [0xC000013A - (1 << 32)]


@pytest.mark.skipif(sys.platform == "win32", reason="a process there ends without a word")
def test_a_program_that_takes_too_long_can_end_what_it_has_started(tmp_path):
    program = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path("asked").touch()))
pathlib.Path("started").touch()
time.sleep(60)
"""
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run_quietly([sys.executable, "-S", "-c", program], tmp_path, limit=2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["asked", "started"]


def test_a_program_that_is_run_quietly_gets_no_input_and_its_output_is_kept(tmp_path):
    program = "import os, sys; print(sys.stdin.read() + os.getcwd()); sys.exit(3)"
    done = processes.run_quietly([sys.executable, "-c", program], tmp_path)
    assert (done.returncode, done.stdout.decode().strip()) == (3, str(tmp_path))


def test_a_program_that_takes_too_long_is_ended(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run_quietly([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, limit=0.2)
