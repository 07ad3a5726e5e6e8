"""Our own open files in a program that closes file descriptors it does not own."""

import os
import resource
import subprocess
import sys

import pytest

from syncheck.system.descriptors import Descriptor, Reserve
from tests.unit.test_cli import RACE, started

DAEMON = (
    """
import os
os.closerange(3, 4096)
opened = [open(f"own{number}.txt", "w") for number in range(40)]
os.dup2(opened[0].fileno(), 600)
"""
    + RACE
    + """
side.wait_stream(torch.cuda.current_stream())
for number, file in enumerate(opened):
    file.write(str(number))
    file.close()
"""
)


def taken_over(descriptor, path):
    """Close a descriptor's number, as a program does, and open another file under it."""
    number = descriptor.fileno()
    os.close(number)
    other = os.open(path, os.O_WRONLY | os.O_CREAT)
    if other != number:
        os.dup2(other, number)
        os.close(other)
    return number


def test_a_file_is_reopened_and_the_new_owner_of_its_number_is_left_alone(tmp_path):
    own = Descriptor.of_file(tmp_path / "own")
    own.write(b"one ")
    number = taken_over(own, tmp_path / "others")
    own.write(b"two ")
    assert own.fileno() != number
    os.close(number)
    own.close()
    assert (tmp_path / "own").read_bytes() == b"one two "
    assert (tmp_path / "others").read_bytes() == b""


def test_a_file_that_no_longer_exists_is_not_replaced(tmp_path):
    own = Descriptor.of_file(tmp_path / "own")
    number = taken_over(own, tmp_path / "others")
    (tmp_path / "own").rename(tmp_path / "kept")
    with pytest.raises(FileNotFoundError):
        own.write(b"lost")
    (tmp_path / "own").write_bytes(b"another")
    with pytest.raises(OSError, match="another file"):
        own.write(b"lost")
    own.close()
    os.close(number)
    assert (tmp_path / "own").read_bytes() == b"another"
    assert (tmp_path / "others").read_bytes() == b""


def test_a_stream_is_found_again_under_its_own_number(tmp_path):
    reading, writing = os.pipe()
    own = Descriptor.of_stream(writing)
    number = taken_over(own, tmp_path / "others")
    own.write(b"text")
    assert os.read(reading, 10) == b"text"
    os.close(writing)
    os.close(own.fileno())
    with pytest.raises(OSError, match="closed"):
        own.write(b"lost")
    for each in (reading, number):
        os.close(each)


def test_a_stream_closed_at_the_start_fails_when_it_is_used():
    with pytest.raises(OSError, match="closed"):
        Descriptor.of_stream(-1).write(b"lost")


def test_a_reserve_releases_the_descriptors_it_took():
    before = set(os.listdir("/proc/self/fd"))
    reserve = Reserve()
    taken = set(os.listdir("/proc/self/fd")) - before
    assert len(taken) >= 4
    reserve.release()
    assert not taken & set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("more", [(), ("--output-format", "json"), ("--output", "report.txt")])
def test_a_daemons_files_receive_neither_report_nor_trace(tmp_path, more):
    (tmp_path / "train.py").write_text(DAEMON)
    done = started("run", "--backend", "sim", "--trace", "run.trace", *more, "train.py", cwd=tmp_path)
    assert [(tmp_path / f"own{number}.txt").read_text() for number in range(40)] == [str(n) for n in range(40)]
    reported = (tmp_path / "report.txt").read_text() if "--output" in more else done.stdout or done.stderr
    assert "SYN101" in reported
    assert done.returncode == 1
    assert "SYN101" in started("replay", "run.trace", cwd=tmp_path).stdout


def test_a_program_that_used_up_all_descriptors_gets_its_report(tmp_path):
    source = (
        """
import os
"""
        + RACE
        + """
while True:
    try:
        os.open("/dev/null", os.O_RDONLY)
    except OSError:
        break
"""
    )
    (tmp_path / "train.py").write_text(source)

    def limit_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    for more in ((), ("--output-format", "sarif"), ("--output", "report.txt")):
        done = started("run", "--backend", "sim", *more, "train.py", cwd=tmp_path, preexec_fn=limit_descriptors)
        assert done.returncode == 1, done.stderr
        reported = (tmp_path / "report.txt").read_text() if "--output" in more else done.stdout or done.stderr
        assert "SYN101" in reported
        assert "y = x * 2" in reported


def test_a_report_without_standard_output_goes_to_standard_error(tmp_path):
    (tmp_path / "train.py").write_text(RACE)
    source = "import os, sys\nos.close(1)\nos.execv(sys.executable, [sys.executable, '-m', 'syncheck', *sys.argv[1:]])"
    (tmp_path / "closed.py").write_text(source)
    words = [sys.executable, "closed.py", "lint", "--no-cache", "train.py"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=250, check=False)
    assert done.returncode == 3
    assert "SYN101" in done.stderr
    assert "bug in syncheck" not in done.stderr
