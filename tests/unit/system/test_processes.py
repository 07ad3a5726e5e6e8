"""Processes on systems with and without forks and signals."""

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


def test_a_process_not_yet_waited_for_has_ended():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(child)
    os.waitpid(child, 0)


def test_windows_is_not_probed_with_a_signal(monkeypatch):
    """Probing with signal 0 would end the process there."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("it was asked"))
    assert processes.is_alive(1)


def test_kill_uses_an_available_signal(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    processes.kill(7)
    monkeypatch.delattr(signal, "SIGKILL")
    processes.kill(7)
    assert sent == [(7, 9), (7, signal.SIGTERM)]


def test_after_fork_hooks_are_ignored_without_forks(monkeypatch):
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


def test_an_interrupt_exits_with_the_windows_status(monkeypatch):
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
def test_a_program_that_exceeds_its_limit_can_clean_up(tmp_path):
    program = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path("asked").touch()))
pathlib.Path("started").touch()
time.sleep(60)
"""
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run_quietly([sys.executable, "-S", "-c", program], tmp_path, limit=2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["asked", "started"]


def test_run_quietly_provides_no_input_and_captures_the_output(tmp_path):
    program = "import os, sys; print(sys.stdin.read() + os.getcwd()); sys.exit(3)"
    done = processes.run_quietly([sys.executable, "-c", program], tmp_path)
    assert (done.returncode, done.stdout.decode().strip()) == (3, str(tmp_path))


def test_a_program_that_exceeds_its_limit_is_ended(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run_quietly([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, limit=0.2)
