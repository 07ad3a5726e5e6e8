"""Reports shared by the renderers' tests, and the comparison with golden files."""

import os
import re
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from rich.cells import cell_len

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix, Frame, Location, Report, Summary
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity

GOLDEN = Path(__file__).parent.parent / "golden"

READ, RECORD, RECORDED_AGAIN, LOOP_SYNC = map(find, ("SYN101", "SYN201", "SYN405", "SYN801"))

WAIT = "copy.wait_stream(torch.cuda.current_stream())"

TRAIN = """\
import torch

copy = torch.cuda.Stream()


def forward(x):
    y = torch.relu(x)
    with torch.cuda.stream(copy):
        z = y * 2
    return z


def step(batch):
    out = forward(batch)
    return out.sum()


step(torch.randn(1024, device="cuda"))
"""

LOADER = """\
class Prefetcher:
\tdef preload(self):
\t\twith torch.cuda.stream(self.side):
\t\t\tself.next = self.batch.cuda(non_blocking=True)

\tdef next_batch(self):
\t\tbatch = self.next
\t\treturn batch
"""

WIDE = """\
结果 = 计算("数据"); done.record(流)  # 第一次
done.record(
    流,
)
"""


def frame_at(path: str, text: str, marked: str, function: str = "", **more: bool) -> Frame:
    """Return the frame of the expression `marked`, which occurs once in the source `text`."""
    assert text.count(marked) == 1, marked
    before, after = text[: text.index(marked)], text[: text.index(marked) + len(marked)]
    line, end_line = before.count("\n") + 1, after.count("\n") + 1
    column, end_column = (len(part) - part.rfind("\n") for part in (before, after))
    source = text.splitlines()[line - 1]
    return Frame(path, line, column, end_line, end_column, function, source, **more)


def location_at(path: str, text: str, marked: str, message: str = "", function: str = "", around: int = 2) -> Location:
    """Return the place of `marked` with `around` source lines before and after it."""
    frame = frame_at(path, text, marked, function)
    numbered = enumerate(text.splitlines(), start=1)
    excerpt = tuple((n, line) for n, line in numbered if abs(n - frame.line) <= around)
    return Location(frame, message, excerpt)


def unordered_read() -> Finding:
    """Return a finding with two places in one excerpt, each with a stack."""
    callers = (
        frame_at("train.py", TRAIN, "forward(batch)", "step"),
        frame_at("train.py", TRAIN, 'step(torch.randn(1024, device="cuda"))', "<module>"),
    )
    read = location_at("train.py", TRAIN, "y * 2", function="forward")
    write = location_at("train.py", TRAIN, "torch.relu(x)", "the default stream of cuda:0 wrote it here", "forward")
    library = Frame("torch/_tensor.py", 52, 0, 52, 0, "_wrapped", "return f(self, *args)", is_user=False)
    message = (
        "stream `copy` (cuda:0) reads `y` (1024 float32, 4 KiB) without waiting for the default stream of "
        "cuda:0, which wrote it"
    )
    return Finding(
        READ,
        replace(read, stack=(library, read.frame, *callers)),
        message,
        f"add `{WAIT}` before line 8",
        (replace(write, stack=(write.frame, *callers)),),
        count=3,
        fix=Fix((Edit(EditKind.INSERT_BEFORE, "train.py", 8, 0, WAIT),), Applicability.SAFE),
    )


def missing_record() -> Finding:
    """Return a finding in a file with tabs whose related places are in this file, in another file and unreadable."""
    message = "`batch` (64x3 float32, 768 bytes) is freed while the default stream of cuda:1 may still use it"
    return Finding(
        RECORD,
        location_at("data/loader.py", LOADER, "batch = self.next", function="Prefetcher.next_batch", around=1),
        message,
        "add this line after line 7:\n    batch.record_stream(torch.cuda.current_stream())",
        (
            location_at(
                "data/loader.py",
                LOADER,
                "self.batch.cuda(non_blocking=True)",
                "allocated here on stream `side` (cuda:1)",
                "Prefetcher.preload",
                around=0,
            ),
            location_at("train.py", TRAIN, "return out.sum()", "freed at the end of this function", "step", 1),
            Location(Frame("<string>", 7, function="reuse"), "the allocator handed the memory out again here"),
        ),
        rank=1,
    )


def lost_record() -> Finding:
    """Return a finding on a multi-line expression among wide characters."""
    return Finding(
        RECORDED_AGAIN,
        location_at("宽.py", WIDE, "done.record(\n    流,\n)", around=1),
        "event `done` is recorded again although its earlier record was never waited for",
        related=(location_at("宽.py", WIDE, "done.record(流)", "recorded here first", around=0),),
        level=Severity.WARNING,
        source="lint",
    )


def loop_sync() -> Finding:
    """Return a finding with only a path and a line."""
    return Finding(
        LOOP_SYNC,
        Location(Frame("notebook cell 3", 12)),
        "`.item()` makes the host wait on every iteration of the loop",
        count=1200,
        level=Severity.ADVICE,
    )


def rich_report() -> Report:
    """Return a report with everything that a report can contain."""
    return Report(
        findings=(missing_record(), loop_sync(), unordered_read(), lost_record()),
        incomplete=("2 operators of the library `fastops` are not understood: fastops::scan, fastops::sort",),
        notes=("torch.compile ran eagerly",),
        summary=Summary("2 simulated GPUs", operators=1234, streams=3, devices=2, seconds=1.25),
        hidden=3,
    )


def marks(shown: str) -> list[tuple[str, str, str]]:
    """Return each underline's stroke, the source text right above it, and the label beside or below it."""
    found, source = [], ""
    for line in shown.splitlines():
        gutter, _, body = line.partition(" | ")
        if gutter.strip().isdigit():
            source = body
        elif (stroke := re.fullmatch(r"( *)(\^+|-+)( .*)?", body)) and not gutter.strip():
            pad, strokes, label = stroke.groups()
            found.append((strokes[0], _cells(source, len(pad), len(strokes)), (label or "").strip()))
        elif found and source and gutter.isspace() and body.strip():
            found[-1] = (*found[-1][:2], f"{found[-1][2]} {body.strip()}".strip())
    return found


def _cells(text: str, start: int, count: int) -> str:
    """Return the characters of `text` in the terminal cells `[start, start + count)`."""
    ends = [cell_len(text[: i + 1]) for i in range(len(text))]
    assert start in (0, *ends), "a mark starts inside a character"
    first = len(list(takewhile(lambda end: end <= start, ends)))
    last = len(list(takewhile(lambda end: end <= start + count, ends)))
    return text[first:last]


def check_golden(name: str, shown: str) -> None:
    """Compare with a golden file; SYNCHECK_UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("SYNCHECK_UPDATE_GOLDEN") == "1":
        path.write_bytes(shown.encode())
    assert path.read_bytes() == shown.encode()
