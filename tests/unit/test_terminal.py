"""The report on a terminal: width, colors and links."""

import os
import pty
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

RACE = """
import torch
side = torch.cuda.Stream()
x = torch.ones(1024, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""
ROOT = Path(__file__).parents[2]
CODES = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\")


@pytest.fixture
def terminal(tmp_path):
    (tmp_path / "train.py").write_text(RACE)

    def run(*arguments, columns=80, **environment):
        """Return what a command prints to a terminal of the given width."""
        import fcntl
        import termios

        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}}
        process = subprocess.Popen(
            [sys.executable, "-m", "syncheck", *arguments],
            cwd=tmp_path,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=kept | {"PYTHONPATH": str(ROOT), "TERM": "xterm"} | environment,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # Linux: the other end is closed
                break
        os.close(ours)
        process.wait(timeout=120)
        return shown.decode().replace("\r\n", "\n")

    return run


@pytest.mark.parametrize(("columns", "least", "most"), [(60, 50, 60), (200, 101, 120)])
def test_the_report_is_as_wide_as_the_terminal_but_prose_stays_readable(terminal, columns, least, most):
    lines = CODES.sub("", terminal("lint", "train.py", columns=columns)).splitlines()
    assert least <= max(map(len, lines)) <= most


def test_tables_become_lists_on_a_narrow_terminal(terminal):
    shown = terminal("overlap", "--backend", "sim", "train.py", columns=40)
    lines = CODES.sub("", shown).splitlines()
    assert max(len(line) for line in lines[lines.index("Work") :] if not line.startswith("note: ")) <= 40
    assert "device, stream: cuda:0" in lines
    assert "  operations: 2" in lines


def test_rules_and_paths_are_links(terminal, tmp_path):
    shown = terminal("lint", "train.py")
    assert "\x1b]8;;https://syncheck.github.io/syncheck/rules/SYN101/\x1b\\" in shown
    assert f"\x1b]8;;{(tmp_path / 'train.py').resolve().as_uri()}#6\x1b\\train.py:6:9" in shown


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_no_escape_codes_where_none_are_wanted(terminal, environment):
    assert "\x1b" not in terminal("lint", "train.py", **environment)


def test_color_can_be_forced_without_a_terminal(tmp_path):
    (tmp_path / "train.py").write_text(RACE)
    environment = {"FORCE_COLOR": "1", "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "syncheck", "lint", "train.py"]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    assert "\x1b[1;31merror[SYN101]" in shown
    assert "\x1b]8" not in shown
