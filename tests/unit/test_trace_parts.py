"""Traces in several files: together they are equivalent to one file; each alone reports its gaps."""

import gzip
import json
import resource
import shutil
import signal
from functools import cache
from pathlib import Path

import pytest

from syncheck.commands.overlap import recorded
from syncheck.commands.run import replay
from syncheck.config.options import Options
from syncheck.errors import TraceError
from syncheck.hb.ids import NamedKind
from syncheck.overlap.recorder import Recorder
from syncheck.run.trace import parts, replaying
from syncheck.run.trace.codec import StoredSites
from syncheck.run.trace.writer import TraceWriter
from syncheck.sanitizer.session import Session
from tests.unit.test_cli import RACE, started

RECORDINGS = sorted((Path(__file__).parents[2] / "fixtures" / "traces").glob("*.trace.gz"))
LOOP = f"""{RACE}
for step in range(1500):
    with torch.cuda.stream(side):
        z = y + step
    torch.cuda.synchronize()
"""
MIDDLE = "what was pending where it begins is unknown"


def new_session(backend):
    return Session(lambda _: True, backend)


def rerecorded(path, folder, limit):
    """Replay a trace into new files of at least a given size; return the first one and the report."""
    sites, writers = StoredSites(), []

    def make(backend):
        writers.append(TraceWriter(new_session(backend), folder / "run.trace", sites, backend, limit))
        return writers[-1]

    report = replaying.replay([path], make, sites)
    writers[0].close()
    return folder / "run.trace", report


@pytest.fixture(scope="module")
def in_files(tmp_path_factory):
    """Return a function that does this once for each trace and size; the files must not be changed."""
    return cache(lambda path, limit: rerecorded(path, tmp_path_factory.mktemp("files"), limit))


def summaries(report):
    return [
        (f.rule.code, f.location.frame.path, f.location.frame.line, f.message, f.help, f.count) for f in report.findings
    ]


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory):
    """Run a program with a race before its loop; its trace has more than four files."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "train.py").write_text(LOOP)
    done = started(
        *"run --backend sim --trace run.trace --trace-size 1KiB --output-format json train.py".split(), cwd=folder
    )
    assert len(parts.named([folder / "run.trace"])) > 4, done.stderr
    return folder, json.loads(done.stdout)


def copied(in_parts, folder):
    """Return copies of the trace's files, in order."""
    paths = []
    for part in parts.named([in_parts[0] / "run.trace"]):
        paths.append(folder / part.path.name)
        paths[-1].write_bytes(part.path.read_bytes())
    return paths


# -- joined


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".trace.gz"))
@pytest.mark.parametrize("limit", [1, 2000])
def test_the_files_of_a_real_run_together_report_what_one_file_reports(path, limit, in_files):
    first, report = in_files(path, limit)
    joined = replaying.replay([first], new_session)
    assert summaries(joined) == summaries(report)
    assert joined.incomplete == report.incomplete == ()
    assert joined.summary.operators == report.summary.operators


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".trace.gz"))
def test_no_file_alone_reports_more_than_the_run(path, in_files):
    first, report = in_files(path, 1)
    whole = {finding[:3] for finding in summaries(report)}
    for part in parts.named([first])[1:]:
        alone = replaying.replay([part.path], new_session)
        assert {finding[:3] for finding in summaries(alone)} <= whole
        assert any(MIDDLE in reason for reason in alone.incomplete)


def test_a_replay_of_the_first_file_finds_what_the_run_found(in_parts):
    folder, live = in_parts
    done = started("replay", "run.trace", "--output-format", "json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["findings"] == live["findings"] != []
    assert found["incomplete"] == []
    assert found["summary"]["operators"] == live["summary"]["operators"]


@pytest.mark.parametrize("named", ["folder", "all", "in another order"])
def test_files_can_be_named_in_several_ways(in_parts, named, tmp_path):
    paths = copied(in_parts, tmp_path)
    given = {"folder": [tmp_path], "all": paths, "in another order": paths[::-1]}[named]
    report = replay(given, Options())
    assert [finding.rule.code for finding in report.findings] == [entry["rule"] for entry in in_parts[1]["findings"]]
    assert report.incomplete == ()


def test_files_of_different_runs_are_rejected(in_parts, tmp_path):
    paths = copied(in_parts, tmp_path)
    other, _ = rerecorded(RECORDINGS[0], tmp_path / "..", 1 << 20)
    with pytest.raises(TraceError, match="different runs"):
        replay([paths[0], other], Options())


def test_copies_of_a_file_are_rejected(in_parts, tmp_path):
    paths = copied(in_parts, tmp_path)
    shutil.copy(paths[0], tmp_path / "copy.trace")
    with pytest.raises(TraceError, match="are the same part of a trace"):
        replay([tmp_path], Options())
    assert replay([*paths, paths[0]], Options()).incomplete == ()


def test_a_file_in_a_folder_that_only_has_the_name_of_a_trace_is_rejected(in_parts, tmp_path):
    copied(in_parts, tmp_path)
    (tmp_path / "notes.txt").write_text("not a trace")
    assert replay([tmp_path], Options()).incomplete == ()
    (tmp_path / "bad.trace").write_text("not a trace")
    with pytest.raises(TraceError, match=r"bad\.trace"):
        replay([tmp_path], Options())


def test_a_folder_without_a_trace_is_rejected(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    with pytest.raises(TraceError, match="no trace"):
        replay([tmp_path], Options())


# -- alone


class Calls:
    """Makes the calls of a small program on a writer: two streams, an allocation, and the calls of the test."""

    def __init__(self, folder, limit=1):
        self.path = folder / "run.trace"
        self.writer = TraceWriter(new_session("a GPU"), self.path, StoredSites(), "a GPU", limit)
        self.writer.stream(1, 0, 0, 0, legacy=False, blocking=False)
        self.writer.stream(2, 0, 77, 0, legacy=False, blocking=False)
        self.view = self.writer.view(0, (4,), (1,), 4, "float32")
        self.writer.allocate(1, 1, 64, 0, 0)

    def launch(self, stream, allocation=1, *, is_write=False):
        self.writer.launch(stream, "aten::mul_", [(allocation, self.view, is_write)], 0)

    def reuse(self):
        """Let the second stream use the first one's memory, free it, and let the first stream fill new memory."""
        self.writer.wait_stream(2, 1, 0)
        self.launch(2)
        self.writer.free(1, 0)
        self.writer.allocate(2, 1, 64, 0, 0)
        self.launch(1, 2, is_write=True)

    def boundary(self):
        """Make irrelevant calls until another file begins; return its path."""
        n_files = len(self.files())
        for number in range(100_000):
            self.writer.host_access(f"read {number * 7919}", [], 0)
            if len(self.files()) > n_files:
                return self.files()[-1]
        raise AssertionError("no other file begins")

    def files(self):
        return sorted(self.path.parent.glob("run.*trace"), key=lambda path: (path != self.path, path))

    def alone(self, path):
        """End the trace and replay one file."""
        self.writer.close()
        return replaying.replay([path], new_session)


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path)


def codes(report):
    return [finding.rule.code for finding in report.findings]


def test_a_race_inside_a_file_is_found_in_that_file_alone(calls):
    second = calls.boundary()
    calls.launch(1, is_write=True)
    calls.launch(2)
    calls.boundary()
    report = calls.alone(second)
    assert codes(report) == ["SYN101"]
    assert any(MIDDLE in reason for reason in report.incomplete)
    assert any("continues after" in reason for reason in report.incomplete)


def test_a_race_across_a_file_boundary_needs_both_files(calls):
    calls.launch(1, is_write=True)
    second = calls.boundary()
    calls.launch(2)
    assert codes(calls.alone(second)) == []
    assert codes(replaying.replay([calls.path], new_session)) == ["SYN101"]


def test_an_event_recorded_before_the_file_is_not_reported_as_unrecorded(calls):
    calls.writer.event(1, 0, timing=False)
    calls.writer.record(1, 1, 0)
    second = calls.boundary()
    calls.writer.wait(1, 2, 0, "event")
    calls.launch(2)
    assert codes(calls.alone(second)) == []


def test_an_event_never_recorded_before_the_file_is_reported(calls):
    calls.writer.event(1, 0, timing=False)
    second = calls.boundary()
    calls.writer.wait(1, 2, 0, "event")
    assert codes(calls.alone(second)) == ["SYN401"]


def test_a_stream_used_before_the_file_is_not_reported_as_idle_while_timed(calls):
    calls.writer.event(1, 0, timing=True)
    calls.writer.event(2, 0, timing=True)
    calls.writer.record(1, 1, 0)
    calls.launch(1, is_write=True)
    second = calls.boundary()
    calls.launch(2, allocate_on_second_stream(calls))
    calls.writer.record(2, 1, 0)
    calls.writer.sync_event(2, 0)
    calls.writer.elapsed(1, 2, 0)
    assert codes(calls.alone(second)) == codes(replaying.replay([calls.path], new_session)) == []


def allocate_on_second_stream(calls):
    """Return an allocation of the second stream."""
    calls.writer.allocate(2, 2, 64, 0, 0)
    return 2


def test_memory_protected_by_record_stream_before_the_file_stays_protected(calls):
    calls.writer.record_stream(1, calls.view, 2, 0)
    second = calls.boundary()
    calls.reuse()
    assert codes(calls.alone(second)) == []


def test_reuse_of_unprotected_memory_older_than_the_file_is_reported(calls):
    second = calls.boundary()
    calls.reuse()
    assert codes(calls.alone(second)) == ["SYN201"]


def test_deleted_objects_are_not_declared_again(calls):
    calls.writer.event(1, 0, timing=False)
    for allocation in range(2, 2000):
        calls.writer.allocate(allocation, 1, 64, 0, 0)
        calls.writer.free(allocation, 0)
    calls.writer.drop_event(1)
    second = calls.boundary()
    calls.writer.close()
    names = [record[0] for record in records(second)]
    assert (names.count("allocate"), names.count("event")) == (1, 0)


def test_names_are_carried_over(calls):
    calls.writer.name(NamedKind.STREAM, 2, "side")
    calls.writer.name(NamedKind.ALLOCATION, 1, "batch")
    second = calls.boundary()
    calls.launch(1, is_write=True)
    calls.launch(2)
    [finding] = calls.alone(second).findings
    assert "`side`" in finding.message
    assert "`batch`" in finding.message


def test_a_thread_older_than_the_file_is_ordered_after_earlier_work(calls):
    calls.writer.launch(1, "aten::mul_", [(1, calls.view, True)], 0)
    calls.writer.host(2, "worker")
    calls.writer.host(1, "MainThread")
    second = calls.boundary()
    calls.writer.host(2, "worker")
    calls.launch(2, is_write=True)
    assert codes(calls.alone(second)) == []


def test_no_file_ends_inside_a_capture(calls):
    calls.writer.capture_begin(1, 2, 0)
    n_files = len(calls.files())
    for _ in range(2000):
        calls.launch(2, is_write=True)
    assert len(calls.files()) == n_files
    calls.writer.capture_end(1)
    calls.boundary()


def test_a_graph_captured_before_the_file_is_reported_as_unknown(calls):
    calls.writer.capture_begin(1, 2, 0)
    calls.launch(2, is_write=True)
    calls.writer.capture_end(1)
    second = calls.boundary()
    calls.writer.replay(1, 2, 0)
    assert any("captured before run.000" in reason for reason in calls.alone(second).incomplete)
    assert replaying.replay([calls.path], new_session).incomplete == ()


# -- lost files


def test_a_missing_file_loses_only_itself(in_parts, tmp_path):
    paths = copied(in_parts, tmp_path)
    paths[2].unlink()
    report = replay([tmp_path], Options())
    assert codes(report) == [entry["rule"] for entry in in_parts[1]["findings"]]
    assert any(f"continues after {paths[1].name}" in reason for reason in report.incomplete)
    assert any(reason.startswith(paths[3].name) and MIDDLE in reason for reason in report.incomplete)


@pytest.mark.parametrize("left", [0, 12, -30], ids=["nothing", "a piece of the header", "all but the end"])
def test_a_truncated_file_loses_only_itself(in_parts, left, tmp_path):
    paths = copied(in_parts, tmp_path)
    whole = replay([tmp_path], Options())
    paths[2].write_bytes(paths[2].read_bytes()[:left])
    report = replay([paths[0]], Options())
    assert codes(report) == codes(whole)
    assert any(reason.startswith(paths[3].name) and MIDDLE in reason for reason in report.incomplete)
    n_lost = whole.summary.operators - report.summary.operators
    assert 0 <= n_lost <= replay([in_parts[0] / paths[2].name], Options()).summary.operators


@pytest.mark.parametrize("left", [0, 12])
def test_files_without_a_header_are_skipped_among_others(in_parts, left, tmp_path):
    paths = copied(in_parts, tmp_path)
    paths[-1].write_bytes(paths[-1].read_bytes()[:left])
    report = replay(paths, Options())
    assert codes(report) == [entry["rule"] for entry in in_parts[1]["findings"]]
    assert any(f"continues after {paths[-2].name}" in reason for reason in report.incomplete)
    with pytest.raises(TraceError, match=paths[-1].name):
        replay([paths[-1]], Options())
    with pytest.raises(TraceError, match="nothing was recorded"):
        replay([paths[-1], paths[-1]], Options())


def test_a_damaged_file_loses_only_itself(in_parts, tmp_path):
    paths = copied(in_parts, tmp_path)
    lines = gzip.decompress(paths[2].read_bytes()).splitlines()
    paths[2].write_bytes(gzip.compress(b"\n".join([*lines[:-20], b'["free",[99999999,0]]', *lines[-20:]])))
    report = replay([tmp_path], Options())
    assert codes(report) == [entry["rule"] for entry in in_parts[1]["findings"]]
    assert any("damaged" in reason and paths[2].name in reason for reason in report.incomplete)
    with pytest.raises(TraceError, match="damaged"):
        replay([paths[2]], Options())


def test_a_kill_may_truncate_the_last_file(tmp_path):
    (tmp_path / "train.py").write_text(f"import os, signal\n{LOOP}os.kill(os.getpid(), signal.SIGKILL)\n")
    started("run", "--backend", "sim", "--trace", "run.trace", "--trace-size", "1KiB", "train.py", cwd=tmp_path)
    assert len(parts.named([tmp_path / "run.trace"])) > 1
    report = replay([tmp_path / "run.trace"], Options())
    assert "SYN101" in codes(report)
    assert any("ends early" in reason for reason in report.incomplete)


def test_a_temporarily_full_disk_loses_one_file(calls):
    """The file size limit stands in for a full disk: writing fails in the same way."""
    calls.launch(1, is_write=True)
    failing = calls.boundary()
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (failing.stat().st_size, old[1][1]))
    try:
        n_files = len(calls.files())
        for number in range(20_000):
            calls.writer.host_access(f"read {number * 7919}", [], 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old[1])
        signal.signal(signal.SIGXFSZ, old[0])
    assert len(calls.files()) > n_files
    in_progress, last = calls.files()[-1], calls.boundary()
    calls.launch(1, is_write=True)
    calls.launch(2)
    with pytest.raises(OSError, match="File too large"):
        calls.writer.close()
    report = replaying.replay([calls.path], new_session)
    assert codes(report) == ["SYN101"]
    assert any(reason.startswith(f"{failing.name} ends early") for reason in report.incomplete)
    whole = (in_progress.name, last.name)  # the former if it was still held back when the disk had room again
    assert any(reason.startswith(whole) for reason in report.incomplete)


def records(path):
    """Return the lines of a file after its header."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()[1:]]


# -- files


def test_files_have_the_requested_size(tmp_path):
    calls = Calls(tmp_path, limit=20_000)
    for _ in range(3):
        calls.boundary()
    calls.writer.close()
    assert all(20_000 <= path.stat().st_size < 30_000 for path in calls.files()[:-1])


def test_a_short_run_has_one_file(tmp_path):
    calls = Calls(tmp_path, limit=1 << 20)
    calls.launch(1)
    calls.writer.close()
    assert calls.files() == [calls.path]


def test_an_overwritten_trace_leaves_no_file_of_the_old_one(tmp_path):
    old = Calls(tmp_path)
    old.boundary()
    old.boundary()
    old.writer.close()
    (tmp_path / "run.0999.trace").write_text("of somebody else")
    new = Calls(tmp_path, limit=1 << 20)
    new.writer.close()
    assert [path.name for path in new.files()] == ["run.trace", "run.0999.trace"]
    assert replaying.replay([new.path], new_session).incomplete == ()


def test_a_timeline_can_be_drawn_from_consecutive_files(tmp_path):
    first, _ = rerecorded(RECORDINGS[0], tmp_path, 1)
    files = [part.path for part in parts.named([first])]
    whole = recorded([RECORDINGS[0]], Options())
    assert len(recorded([first], Options()).recorder.graph().ops) == len(whole.recorder.graph().ops)
    assert isinstance(recorded([files[-1]], Options()).recorder, Recorder)
