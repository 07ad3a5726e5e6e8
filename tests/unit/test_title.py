"""Progress of a run in the title of its terminal."""

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from syncheck.run import title
from tests import warm


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def show(self, data):
        if self.closed:
            raise OSError
        self.write(data.decode())


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


def test_the_title_is_updated_and_the_old_one_restored():
    terminal, texts = Terminal(), iter(["one", "two", *["three"] * 10_000])
    with title.shown(lambda: next(texts), terminal.show, first_after=0, every=0.001):
        until(lambda: "three" in terminal.getvalue())
    written = terminal.getvalue()
    assert written.startswith("\x1b[22;2t\x1b]2;one\x07\x1b]2;two\x07\x1b]2;three\x07")
    assert written.endswith("\x1b[23;2t")
    assert "syncheck-title" not in {thread.name for thread in threading.enumerate()}


def test_a_file_that_reuses_the_number_of_a_closed_terminal_is_not_written_to(tmp_path):
    with open(tmp_path / "terminal", "w") as terminal:
        write, number = title.writer(terminal), terminal.fileno()
    (tmp_path / "terminal").unlink()
    with open(tmp_path / "file", "w") as other:
        assert other.fileno() == number
        with title.shown(lambda: "text", write, first_after=0, every=0.001):
            time.sleep(0.05)
    assert (tmp_path / "file").read_bytes() == b""


def test_a_terminal_without_a_descriptor_shows_nothing():
    with title.shown(lambda: "text", title.writer(Terminal()), first_after=0, every=0.001):
        time.sleep(0.01)


def test_a_short_run_does_not_change_the_title():
    terminal = Terminal()
    with title.shown(lambda: "text", terminal.show, first_after=60):
        pass
    assert not terminal.getvalue()


def test_a_terminal_closed_by_the_program_causes_no_error():
    terminal = Terminal()
    with title.shown(lambda: "text", terminal.show, first_after=0, every=0.001):
        until(terminal.getvalue)
        terminal.close()


@pytest.mark.parametrize(
    ("term", "kind", "expected"),
    [("xterm-256color", Terminal, True), ("xterm", io.StringIO, False), ("dumb", Terminal, False)],
)
def test_streams_without_a_title_show_nothing(monkeypatch, term, kind, expected):
    monkeypatch.setenv("TERM", term)
    assert title.can_show(kind()) is expected


def test_a_terminal_without_term_shows_nothing(monkeypatch):
    monkeypatch.delenv("TERM", raising=False)
    assert not title.can_show(Terminal())


def run_on_a_terminal(folder, program, *options, **more):
    """Run a program with standard error on a terminal; return its status, its output, and what the terminal got."""
    pty = pytest.importorskip("pty")
    (folder / "long.py").write_text(program)
    read_end, write_end = pty.openpty()
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "sim", *options, "long.py"]
    environment = os.environ | {"TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])} | more
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=write_end, env=environment, check=False, text=True
    )
    os.close(write_end)
    written = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while part := os.read(read_end, 4096):
            written += part
    os.close(read_end)
    return done.returncode, done.stdout, written.decode()


def test_a_run_on_a_terminal_shows_its_progress(tmp_path):
    program = "import time, torch\ntorch.ones(4, device='cuda') + 1\ntime.sleep(3.5)\nprint('done')\n"
    status, output, written = run_on_a_terminal(tmp_path, program)
    assert status == 0
    assert output.startswith("done\n")
    assert "\x1b]2;syncheck: 2 operators in " in written
    assert written.count("\x1b[23;2t") == written.count("\x1b[22;2t") == 1


ON_STDERR = "import sys, torch\ntorch.ones(4, device='cuda') + 1\nprint('by the program', file=sys.stderr)\n"


def test_a_run_on_a_terminal_first_says_that_it_checks(tmp_path):
    status, output, written = run_on_a_terminal(tmp_path, ON_STDERR)
    said, by_program, *_ = written.splitlines()
    assert status == 0
    assert said == "syncheck: checking long.py; the report follows at its end"
    assert by_program == "by the program"
    assert output == ""


@pytest.mark.parametrize(("options", "more"), [(["-q"], {}), (["-v"], {}), ([], {"RANK": "1", "WORLD_SIZE": "2"})])
def test_the_line_is_left_out_where_it_would_repeat_or_disturb(tmp_path, options, more):
    assert "checking long.py;" not in run_on_a_terminal(tmp_path, ON_STDERR, *options, **more)[2]


def test_ranks_say_it_once(tmp_path):
    written = run_on_a_terminal(tmp_path, ON_STDERR, "--nproc", "2")[2]
    assert written.count("checking long.py;") == 1


def test_nothing_is_added_where_standard_error_is_not_a_terminal(tmp_path):
    (tmp_path / "short.py").write_text(ON_STDERR)
    done = warm.run("syncheck", "run", "--backend", "sim", "short.py", folder=tmp_path)
    assert done.stderr.startswith("by the program\n")
