"""A damaged part affects only its own rank: it is named, and findings of the other ranks are still reported."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck import serialization
from syncheck.config.options import FORMATS, Options
from syncheck.findings import Finding, Report, Summary
from syncheck.ranks import merging
from syncheck.ranks.signature import Group, Signature
from syncheck.ranks.writer import BLOCK, Process, Recorder
from syncheck.report.render import render
from syncheck.rules import unordered_read
from tests.ranks.test_records import GATHER, REDUCE, WORLD, location

EXCHANGE = [
    Signature("all_to_all", pairs=((0, 1, 4), (1, 0, 4))),
    Signature("all_to_all", pairs=((0, 1, 4), (1, 0, 4))),
]
VALUES = [None, True, -1, 1 << 31, 1 << 70, 1.5, float("nan"), "", "x", "\udcff", [], [[]], {}, [1, 2], {"a": 1}]


def found(rank):
    return Finding.of(
        unordered_read.RULE, location(10 + rank), reader=f"reader {rank}", tensor="`x`", writer="the writer"
    )


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The files by name of three ranks with collectives in two groups, one finding each, and an end."""
    folder = tmp_path_factory.mktemp("job")
    for rank in WORLD:
        recorder = Recorder(folder, Process(rank, 3))
        for step in range(BLOCK + 5):
            recorder.issue(Group("0", WORLD), REDUCE if step % 2 else GATHER, step % 3, location)
        if rank < 2:
            recorder.issue(Group("pair", (0, 1)), EXCHANGE[rank], 7, location)
        if rank == 2:
            recorder.record(
                "hung", {"group": "0", "what": "all_reduce", "place": serialization.of_location(location(3))}
            )
        report = Report((found(rank),), ("a reason",), ("a note",), Summary("sim", 1, 1, 1, 0.5))
        recorder.end(0, report, ["train.py"], ["train.py:3: unused"])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def merged(folder, files):
    """Merge a folder with the given files, and render the report in all formats."""
    for name in os.listdir(folder):
        os.unlink(folder / name)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    report = merging.merge([folder]).report
    for kind in FORMATS:
        assert render(report, Options(output_format=kind), color=False).encode("utf-8", "surrogateescape")
    return report


def is_rest_reported(report, damaged):
    """Return whether the other ranks' findings are reported, and the damaged rank is read or named."""
    lines = {f.location.frame.line for f in report.findings if f.rule is unordered_read.RULE}
    others = {10 + rank for rank in WORLD if rank != damaged}
    is_named = any(f"rank-{damaged:05}" in reason or f"rank {damaged}" in reason for reason in report.incomplete)
    return others <= lines and (10 + damaged in lines or is_named)


def name_of(job, rank, suffix):
    return next(name for name in job if name.startswith(f"rank-{rank:05}") and name.endswith(suffix))


@pytest.mark.parametrize("suffix", [".jsonl", ".ops"])
def test_a_part_truncated_anywhere_hides_no_other_rank(job, tmp_path, suffix):
    for rank in (0, 2):
        name = name_of(job, rank, suffix)
        for end in range(0, len(job[name]), max(1, len(job[name]) // 60)):
            assert is_rest_reported(merged(tmp_path, job | {name: job[name][:end]}), rank), (rank, end)


@settings(max_examples=150)
@given(rank=st.integers(0, 2), suffix=st.sampled_from([".jsonl", ".ops"]), data=st.data())
def test_changed_bytes_hide_no_other_rank(job, tmp_path_factory, rank, suffix, data):
    name = name_of(job, rank, suffix)
    content = bytearray(job[name])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    report = merged(tmp_path_factory.mktemp("damaged"), job | {name: bytes(content)})
    assert all(any(10 + other == f.location.frame.line for f in report.findings) for other in WORLD if other != rank)


def values_in(record, path=()):
    """Yield the path to each value in a record."""
    items = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from values_in(value, (*path, key))


@settings(max_examples=400)
@given(rank=st.integers(0, 2), data=st.data())
def test_changed_values_hide_no_other_rank(job, tmp_path_factory, rank, data):
    name = name_of(job, rank, ".jsonl")
    lines = [json.loads(line) for line in job[name].splitlines()]
    record = data.draw(st.sampled_from(range(len(lines))))
    way = data.draw(st.sampled_from(list(values_in(lines[record])) or [()]))
    inner = lines[record]
    for key in way[:-1]:
        inner = inner[key]
    if way:
        inner[way[-1]] = data.draw(st.sampled_from(VALUES))
    content = "\n".join(map(json.dumps, lines)).encode() + b"\n"
    report = merged(tmp_path_factory.mktemp("damaged"), job | {name: content})
    assert all(any(10 + other == f.location.frame.line for f in report.findings) for other in WORLD if other != rank)


@pytest.mark.parametrize("size", [2147483647, 1 << 70, -1, "3", None])
def test_an_impossible_number_of_ranks_is_reported_as_damage(job, tmp_path, size):
    name = name_of(job, 1, ".jsonl")
    header, rest = job[name].split(b"\n", 1)
    kind, data = json.loads(header)
    content = json.dumps([kind, data | {"size": size}]).encode() + b"\n" + rest
    report = merged(tmp_path, job | {name: content})
    assert is_rest_reported(report, 1)
    assert any(name in reason and "damaged" in reason for reason in report.incomplete)
