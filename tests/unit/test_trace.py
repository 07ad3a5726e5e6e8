"""Recorded runs reproduce their findings, and every kind of damaged file is handled."""

import gzip
import json
import os
import random

import pytest

from syncheck.errors import TraceError
from syncheck.run.trace.file import TraceFile
from syncheck.run.trace.replaying import replay
from syncheck.sanitizer.session import Session
from tests.unit.test_cli import RACE, started


def new_session(backend):
    return Session(lambda _: True, backend)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    (folder / "train.py").write_text(RACE + "x = None\ny.record_stream(side)\n")
    done = started("run", "--trace", "run.trace", "--output-format", "json", "train.py", cwd=folder)
    return folder / "run.trace", json.loads(done.stdout)


def test_a_replay_finds_what_the_run_found(recorded):
    path, report = recorded
    done = started("replay", path, "--output-format", "json", cwd=path.parent)
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"] == report["findings"]
    assert json.loads(done.stdout)["incomplete"] == []


def test_a_replay_elsewhere_differs_only_in_the_fix(recorded, tmp_path):
    path, report = recorded
    found = json.loads(started("replay", path, "--output-format", "json", cwd=tmp_path).stdout)["findings"]
    assert [entry["fix"] and entry["fix"]["applicability"] for entry in found] == [
        "example",
        None,
    ]  # which needs the program's text
    without_fixes = [
        [{**entry, "fix": None, "help": entry["help"].removeprefix("for example, ")} for entry in findings]
        for findings in (found, report["findings"])
    ]
    assert without_fixes[0] == without_fixes[1]


def test_a_replay_needs_neither_torch_nor_the_program(recorded, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch must not be loaded')\n")
    done = started("replay", recorded[0], env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "SYN101" in done.stdout


def test_a_trace_cut_off_between_calls_is_replayed_as_incomplete(recorded, tmp_path):
    lines = gzip.decompress(recorded[0].read_bytes()).splitlines(keepends=True)
    path = tmp_path / "cut.trace"
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    report = replay([path], new_session)
    assert report.findings
    assert "ends early" in report.incomplete[0]


def test_a_trace_cut_off_inside_the_compression_is_replayed_as_incomplete(recorded, tmp_path):
    path = tmp_path / "cut.trace"
    path.write_bytes(recorded[0].read_bytes()[:-20])
    assert "ends early" in replay([path], new_session).incomplete[0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a trace",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"[1, 2]\n", mtime=0),
        gzip.compress(b'{"syncheck-trace": 99, "version": "7.0"}\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n["no_such_call", []]\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n["report", []]\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n["launch", [1]]\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n["free", [77, 0]]\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n["site", 1, {"frame": 3}, ""]\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n7\n', mtime=0),
        gzip.compress(b'{"syncheck-trace": 1}\n{"a": 1}\n', mtime=0),
        gzip.compress(b"\xff\xfe\n", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
    ],
)
def test_a_file_that_is_not_a_trace_is_rejected_with_its_name(tmp_path, content):
    path = tmp_path / "bad.trace"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"bad\.trace"):
        replay([path], new_session)


def test_a_newer_format_names_the_version_that_wrote_it(tmp_path):
    path = tmp_path / "newer.trace"
    path.write_bytes(gzip.compress(b'{"syncheck-trace": 99, "version": "7.0"}\n'))
    with pytest.raises(TraceError, match=r"99.*syncheck 7\.0"):
        replay([path], new_session)


def is_replayed_or_rejected(path):
    """Return whether a file is replayed, or rejected with its name; anything else is a crash."""
    try:
        return replay([path], new_session) is not None
    except TraceError as error:
        return path.name in str(error)


def test_fuzzed_files_never_crash_the_reader(recorded, tmp_path):
    chance = random.Random(20)
    whole = recorded[0].read_bytes()
    lines = gzip.decompress(whole)
    path = tmp_path / "fuzzed.trace"
    for turn in range(400):
        data = bytearray(lines if turn % 2 else whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(gzip.compress(bytes(data)) if turn % 2 else bytes(data))
        assert is_replayed_or_rejected(path)


def test_mutated_calls_never_crash_the_replay(recorded, tmp_path):
    chance = random.Random(21)
    records = [json.loads(line) for line in gzip.decompress(recorded[0].read_bytes()).splitlines()]
    values = [0, -1, 10**20, None, "x", [], [[1, 2]], {}, True, 1.5]
    path = tmp_path / "mutated.trace"
    for _ in range(400):
        changed = json.loads(json.dumps(records))
        record = chance.choice(changed[1:])
        if len(record) > 1 and isinstance(record[1], list) and record[1]:
            record[1][chance.randrange(len(record[1]))] = chance.choice(values)
        elif len(record) > 1:
            record[chance.randrange(len(record))] = chance.choice(values)
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, changed)).encode()))
        assert is_replayed_or_rejected(path)


def test_a_trace_cut_anywhere_is_replayed_as_far_as_possible(recorded, tmp_path):
    """Every call is on the disk before the next one, so all cuts are after the header."""
    records = gzip.decompress(recorded[0].read_bytes()).decode().splitlines()
    trace = TraceFile(tmp_path / "whole.trace")
    ends = []
    for record in records:
        trace.write(record)
        trace.flush()
        ends.append((tmp_path / "whole.trace").stat().st_size)
    path = tmp_path / "cut.trace"
    found = []
    for end in range(ends[0], ends[-1], 7):
        path.write_bytes((tmp_path / "whole.trace").read_bytes()[:end])
        report = replay([path], new_session)
        assert "ends early" in report.incomplete[-1]
        found.append(len(report.findings))
    trace.close()
    assert found == sorted(found)
    assert found[-1]


@pytest.mark.parametrize("ending", ["os.kill(os.getpid(), signal.SIGKILL)", "os.abort()"])
def test_a_killed_program_leaves_its_trace(tmp_path, ending):
    more = "time.sleep(0.6)\nz = y + 1\ntorch.cuda.synchronize()\n"
    (tmp_path / "train.py").write_text(f"import os, signal, time\n{RACE}{more}{ending}\n")
    started("run", "--backend", "sim", "--trace", "run.trace", "train.py", cwd=tmp_path)
    done = started("replay", "run.trace", cwd=tmp_path)
    assert "SYN101" in done.stdout
    assert "the trace ends early" in " ".join(done.stdout.split())


def test_a_forked_child_does_not_touch_the_trace(tmp_path):
    more = "pid = os.fork()\nif pid == 0:\n    raise SystemExit\nos.waitpid(pid, 0)\n"
    (tmp_path / "train.py").write_text(f"import os\n{RACE}{more}")
    started("run", "--backend", "sim", "--trace", "run.trace", "train.py", cwd=tmp_path)
    done = started("replay", "run.trace", "--output-format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["incomplete"] == []
