"""The timeline as a trace file that is valid by the format's own rules, with edges and findings."""

import json
from itertools import pairwise

import jsonschema
import pytest

from syncheck.commands.overlap import recorded
from syncheck.config.options import Options
from syncheck.overlap import timeline, wording
from syncheck.overlap.analysis import analyze
from syncheck.report import perfetto
from tests import warm
from tests.overlap.test_seeds import SEEDS

NUMBER = {"type": "number", "minimum": 0}
PLACED = {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "name": {"type": "string", "minLength": 1}}


def event(phase, required, **properties):
    return {
        "properties": {"ph": {"const": phase}, **PLACED, **properties},
        "required": ["ph", "pid", "tid", "name", *required],
    }


SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    event("M", ["args"], args={"type": "object"}),
                    event("X", ["ts", "dur", "cat"], ts=NUMBER, dur=NUMBER, cat={"type": "string"}),
                    event("s", ["ts", "id", "cat"], ts=NUMBER, id={"type": "integer"}),
                    event("f", ["ts", "id", "cat", "bp"], ts=NUMBER, id={"type": "integer"}, bp={"const": "e"}),
                    event("i", ["ts", "s"], ts=NUMBER, s={"enum": ["g", "p", "t"]}),
                ]
            },
        },
    },
}
"""The Trace Event Format's requirements for the kinds of events that are written."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("perfetto") / "run.trace"
    options = ("--backend", "sim", "--trace", str(path), "--exit-zero")
    done = warm.run("syncheck", "run", *options, "transfer_both_non_blocking.py", folder=SEEDS)
    assert done.returncode == 0, done.stderr
    return path


def timeline_of(trace):
    recorder, sites, report, _ = recorded([trace], Options())
    analysis = analyze(recorder.graph())
    words = wording.report(analysis, recorder.names, sites, "two GPUs")
    return timeline.make(analysis, words, wording.Wording(analysis.graph, recorder.names, sites), report)


@pytest.fixture
def events(trace):
    return json.loads(perfetto.render(timeline_of(trace)))["traceEvents"]


def test_the_file_is_a_valid_trace(trace):
    jsonschema.validate(json.loads(perfetto.render(timeline_of(trace))), SCHEMA)


def test_each_stream_is_a_thread_of_its_device(events):
    threads = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert (1, "stream `sender` (cuda:0)") in threads
    assert (2, "the default stream of cuda:1") in threads
    assert (0, "host") in threads


def test_both_ends_of_an_arrow_are_inside_an_operator(events):
    boxes = [e for e in events if e["ph"] == "X"]
    ends = [e for e in events if e["ph"] in "sf"]
    assert ends
    for end in ends:
        lane = [b for b in boxes if (b["pid"], b["tid"]) == (end["pid"], end["tid"])]
        assert any(b["ts"] <= end["ts"] <= b["ts"] + b["dur"] for b in lane)
    assert sorted(e["id"] for e in ends if e["ph"] == "s") == sorted(e["id"] for e in ends if e["ph"] == "f")


def test_findings_and_their_missing_edges_are_included(events):
    assert [e["name"][:6] for e in events if e["ph"] == "i"] == ["SYN101", "SYN101"]
    missing = [e for e in events if e.get("cat") == "missing edge"]
    assert missing
    assert all(e["name"].startswith("missing: ") for e in missing)


def test_operators_do_not_overlap_in_their_stream(events):
    lanes = {}
    for box in (e for e in events if e["ph"] == "X"):
        lanes.setdefault(box["tid"], []).append((box["ts"], box["ts"] + box["dur"]))
    for boxes in lanes.values():
        boxes.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(boxes))


def test_only_the_longest_operators_are_drawn_if_there_are_too_many(trace, monkeypatch):
    monkeypatch.setattr(timeline, "MAX_BOXES", 3)
    made = timeline_of(trace)
    drawn = [box for box in made.boxes if box.lane > 0]
    assert len(drawn) == 3
    assert any(note.startswith("3 of ") and "operators are drawn" in note for note in made.notes)


def test_the_command_writes_a_trace(trace, tmp_path):
    done = warm.run("syncheck", "replay", "--perfetto", "out.json", "--exit-zero", str(trace), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads((tmp_path / "out.json").read_text()), SCHEMA)


def test_findings_are_shown_even_if_the_timeline_cannot_be_written(trace, tmp_path):
    done = warm.run("syncheck", "replay", "--perfetto", "/dev/full", str(trace), folder=tmp_path)
    assert "cannot write the timeline to" in done.stdout
    assert "SYN101" in done.stdout
