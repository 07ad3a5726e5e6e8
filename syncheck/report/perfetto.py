"""Timeline as a trace for ui.perfetto.dev and chrome://tracing.

Source:
    "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

import json
from collections.abc import Iterator
from typing import Any

from syncheck.overlap.timeline import Arrow, Box, Lane, Timeline
from syncheck.version import __version__

Event = dict[str, Any]


def render(timeline: Timeline) -> str:
    """Return the trace: lanes as threads of a process for each device, edges as flow arrows, findings as instants."""
    events = [
        *_lanes(timeline.lanes, timeline.report.device_type),
        *(_box(box, timeline) for box in timeline.boxes),
        *(event for number, arrow in enumerate(timeline.arrows) for event in _flow(number, arrow, timeline)),
        *_findings(timeline),
    ]
    report = timeline.report
    other = {
        "tool": f"syncheck {__version__}",
        "backend": report.backend,
        "times": report.times,
        "notes": list(timeline.notes),
        "why": list(report.verdicts),
    }
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}, separators=(",", ":"))


def _process(lane: Lane) -> int:
    return lane.device + 1


def _lanes(lanes: tuple[Lane, ...], device_type: str) -> Iterator[Event]:
    for number, lane in enumerate(lanes):
        process = "host" if lane.device < 0 else f"{device_type}:{lane.device}"
        common: Event = {"ph": "M", "pid": _process(lane), "tid": number}
        yield {**common, "name": "process_name", "args": {"name": process}}
        yield {**common, "name": "process_sort_index", "args": {"sort_index": _process(lane)}}
        yield {**common, "name": "thread_name", "args": {"name": lane.name}}
        yield {**common, "name": "thread_sort_index", "args": {"sort_index": number}}


def _where(number: int, timeline: Timeline) -> Event:
    lane = timeline.boxes[number].lane
    return {"pid": _process(timeline.lanes[lane]), "tid": lane}


def _micro(nanoseconds: int) -> float:
    return nanoseconds / 1000


def _box(box: Box, timeline: Timeline) -> Event:
    location = timeline.locations[box.site]
    args: Event = {"critical path": box.is_critical}
    if location.frame.line:
        args |= {"line": f"{location.frame.path}:{location.frame.line}", "source": location.frame.source.strip()}
        args["stack"] = [f"{frame.path}:{frame.line} {frame.function}" for frame in location.stack if frame.is_user]
    if box.n_bytes:
        args |= {"bytes": box.n_bytes, "flops": box.flops}
    return {
        "ph": "X", "name": box.name, "cat": "critical" if box.is_critical else "operator",
        "pid": _process(timeline.lanes[box.lane]), "tid": box.lane,
        "ts": _micro(box.start), "dur": _micro(max(0, box.end - box.start)), "args": args,
    }  # fmt: skip


def _flow(number: int, arrow: Arrow, timeline: Timeline) -> Iterator[Event]:
    """Yield both ends of an arrow: from the end of one box to the start of another, inside both."""
    source, target = timeline.boxes[arrow.source], timeline.boxes[arrow.target]
    category = "missing edge" if arrow.is_missing else "critical edge" if arrow.is_critical else "edge"
    common: Event = {"name": arrow.text, "cat": category, "id": number}
    yield {"ph": "s", **common, **_where(arrow.source, timeline), "ts": _micro(source.end)}
    yield {"ph": "f", "bp": "e", **common, **_where(arrow.target, timeline), "ts": _micro(target.start)}


def _findings(timeline: Timeline) -> Iterator[Event]:
    for mark in timeline.marks:
        if mark.box >= 0:
            finding = mark.finding
            yield {
                "ph": "i", "s": "t", "name": f"{finding.rule.code} {finding.message}", "cat": "finding",
                **_where(mark.box, timeline), "ts": _micro(timeline.boxes[mark.box].start),
                "args": {"rule": finding.rule.name, "help": finding.help},
            }  # fmt: skip
