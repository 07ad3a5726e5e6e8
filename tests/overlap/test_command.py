"""`syncheck overlap` from a user's point of view: programs, traces, and files that are neither."""

import gzip
import json

import pytest

from syncheck.commands.overlap import is_trace, recorded
from syncheck.config.options import Options
from syncheck.overlap.recorder import Recorder
from syncheck.run.trace.writer import TraceWriter
from syncheck.sanitizer.session import Session
from tests import warm
from tests.unit.sanitizer.program import Program as Sites

RIGHT = """
import torch
side = torch.cuda.Stream()
x = torch.ones(1 << 22, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
print("the program's own output", (x + y).sum().item())
"""
WRONG = RIGHT.replace("side.wait_stream(torch.cuda.current_stream())\n", "")
PLAIN = "print('no GPU')\n"


@pytest.fixture
def overlap(tmp_path):
    def run(source, *options):
        (tmp_path / "train.py").write_text(source)
        return warm.run("syncheck", "overlap", "--backend", "sim", *options, "train.py", folder=tmp_path)

    return run


def test_the_command_runs_the_program_and_names_the_source_of_the_times(overlap):
    done = overlap(RIGHT)
    assert done.returncode == 0, done.stderr
    assert "the program's own output" in done.stdout
    assert "not measured; estimated with a cost model" in done.stdout
    assert "the default stream of cuda:0 waits for stream `side` (cuda:0) (train.py:8)" in " ".join(done.stdout.split())


def test_devices_have_the_names_that_the_program_uses(overlap, tmp_path):
    source = RIGHT.replace("cuda", "xpu").replace("print", "torch.xpu.synchronize()\nprint")
    done = overlap(source, "--device-type", "xpu", "--perfetto", str(tmp_path / "t.json"))
    assert done.returncode == 0, done.stderr
    assert "the default stream of xpu:0 waits for stream `side` (xpu:0)" in " ".join(done.stdout.split())
    assert "the host waits for all work on xpu:0" in " ".join(done.stdout.split())
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert "xpu:0" in {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert "cuda" not in done.stdout + json.dumps(events)


def test_too_few_steps_are_an_error(overlap):
    done = overlap(RIGHT, "--steps", "3:4")
    assert done.returncode == 3
    assert "the program ended before the steps of --steps" in done.stderr
    assert "--steps begins with step 3, but only 0 steps ran" in done.stderr


def test_the_critical_path_is_shown_in_order(overlap):
    text = " ".join(overlap(RIGHT).stdout.split())
    path = text[text.index("Critical path, from start to end") :]
    work, wait = (
        path.index("stream `side` (cuda:0): aten::mul"),
        path.index("-> the default stream of cuda:0 waits for"),
    )
    assert work < wait
    assert "needed because `y` is read" in path[wait:]


def test_findings_are_counted_but_do_not_fail_the_command(overlap):
    done = overlap(WRONG)
    assert done.returncode == 0
    assert "note: 1 finding: `syncheck run` shows what is wrong" in done.stdout


def test_a_failing_program_keeps_its_exit_status(overlap):
    assert overlap(RIGHT + "raise SystemExit(7)\n").returncode == 7


def test_a_program_without_gpu_work_is_an_error(overlap):
    done = overlap(PLAIN)
    assert done.returncode == 3
    assert "the program launched no GPU work" in done.stderr


def test_a_trace_without_times_can_be_analyzed(overlap, tmp_path):
    done = overlap(RIGHT, "--trace", str(tmp_path / "run.trace"))
    assert is_trace(tmp_path / "run.trace")
    again = warm.run("syncheck", "overlap", str(tmp_path / "run.trace"), folder=tmp_path)
    assert again.returncode == 0, again.stderr
    table = done.stdout[done.stdout.index("\nWaits") :]
    assert again.stdout[again.stdout.index("\nWaits") :] == table


def test_a_truncated_trace_is_analyzed_as_far_as_possible(overlap, tmp_path):
    overlap(RIGHT, "--trace", str(tmp_path / "run.trace"))
    lines = gzip.decompress((tmp_path / "run.trace").read_bytes()).splitlines(keepends=True)
    (tmp_path / "cut.trace").write_bytes(gzip.compress(b"".join(lines[:-3])))
    again = warm.run("syncheck", "overlap", str(tmp_path / "cut.trace"), folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "the trace ends early" in again.stdout


def test_a_trace_truncated_before_the_first_operator_is_an_error(overlap, tmp_path):
    overlap(RIGHT, "--trace", str(tmp_path / "run.trace"))
    lines = gzip.decompress((tmp_path / "run.trace").read_bytes()).splitlines(keepends=True)
    for data, message in [
        (gzip.compress(lines[0]), "hint: the trace ends early"),
        (gzip.compress(lines[0])[:20], "the trace is cut off before its first line"),
    ]:
        (tmp_path / "cut.trace").write_bytes(data)
        again = warm.run("syncheck", "overlap", str(tmp_path / "cut.trace"), folder=tmp_path)
        assert again.returncode == 3
        assert message in again.stderr


def test_a_file_name_that_looks_like_markup_is_escaped(tmp_path):
    pytest.importorskip("jinja2")
    name = "<script>alert(1)<!--.py"
    (tmp_path / name).write_text(RIGHT)
    done = warm.run("syncheck", "overlap", "--backend", "sim", "--html", "out.html", name, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;!--.py:8" in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b broken header", b"import torch\n"])
def test_a_file_that_is_not_a_trace_is_treated_as_a_program(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    assert not is_trace(tmp_path / "file")


def test_the_report_can_be_written_to_a_file(overlap, tmp_path):
    done = overlap(RIGHT, "--output", str(tmp_path / "out.txt"))
    assert "\nWaits" not in done.stdout
    assert "\nWaits" in (tmp_path / "out.txt").read_text()


def one_tensor_traced(path):
    """Start a trace of a program with one tensor. Return its writer and the tensor's view."""
    writer = TraceWriter(Recorder(Session(lambda _: True, "a GPU")), path, Sites(streams=1), "a GPU")
    writer.stream(1, 0, 0, 0, legacy=True, blocking=False)
    view = writer.view(0, (4,), (1,), 4, "float32")
    writer.allocate(1, 1, 16, 0, 0)
    return writer, view


def test_measured_times_are_stored_in_a_trace(tmp_path):
    path = tmp_path / "run.trace"
    writer, view = one_tensor_traced(path)
    for interval in (1, 2):
        writer.launch(1, "aten::mul_", [(1, view, True)], 0)
        writer.timed(interval, 1, "aten::mul_")
    writer.times(((1, 1000, 70_000), (2, 90_000, 80_000)))
    writer.close()
    graph = recorded([path], Options()).recorder.graph()
    assert [(op.began, op.nanoseconds) for op in graph.ops] == [(1000, 70_000), (90_000, 80_000)]
    assert graph.measured == 2


def test_a_trace_records_where_its_times_end(tmp_path):
    path = tmp_path / "run.trace"
    writer, view = one_tensor_traced(path)
    for number in range(5):
        if number == 2:
            writer.untimed()
        writer.launch(1, "aten::mul_", [(1, view, True)], 0)
    writer.close()
    done = warm.run("syncheck", "overlap", "run.trace", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert (
        "the first 2 operators were measured and are shown; 3 more were only checked (raise --timed-operators" in text
    )


def test_times_can_be_enabled_in_a_settings_file(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nbackend = "sim"\ntimes = true\n')
    (tmp_path / "train.py").write_text(RIGHT)
    done = warm.run("syncheck", "run", "--output-format", "json", "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.index("{") :])["findings"] == []
