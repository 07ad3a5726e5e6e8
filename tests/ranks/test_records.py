"""Records that ranks write and how they are merged: whole, truncated, damaged, of other versions, of several jobs."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck import serialization
from syncheck.errors import RecordError
from syncheck.findings import Finding, Frame, Location, Report, Summary, format_ranks
from syncheck.ranks import merging, writer
from syncheck.ranks.reader import paths, read
from syncheck.ranks.signature import Group, Signature
from syncheck.ranks.writer import BLOCK, Process, Recorder
from syncheck.rules import collective_mismatch, unordered_read

REDUCE, GATHER = Signature("all_reduce", "float32 [4]", "sum"), Signature("all_gather", "float32 [4]")
WORLD = (0, 1, 2)


def location(site):
    return Location(Frame("train.py", site, 1, site, 9, "step", f"line {site}"))


def write(folder, sequences, *, ends=(), size=3, group="0", members=WORLD, **process):
    """Write one part per rank. `ends` has the status of each rank, None for a truncated part; the default is 0."""
    recorders = []
    for rank, sequence in enumerate(sequences):
        recorder = Recorder(folder, Process(rank, size, **process))
        for signature, site in sequence:
            recorder.issue(Group(group, members), signature, site, location)
        recorders.append(recorder)
    for rank, recorder in enumerate(recorders):
        status = ends[rank] if ends else 0
        if status is not None:
            recorder.end(status, Report(summary=Summary("sim", 1, 1, 1, 0.5)), ["train.py"], [])
    return recorders


def mismatches(folder):
    found = merging.merge([folder]).report.findings
    return [f for f in found if f.rule is collective_mismatch.RULE]


@pytest.mark.parametrize(
    ("visible", "used", "number"),
    [(("", ""), ("0", "0"), 1), (("", ""), ("0", "1"), 2), (("4", "5"), ("0", "0"), 2), (("4,5", "5"), ("1", "0"), 1)],
)
def test_devices_are_counted_over_all_ranks(tmp_path, monkeypatch, visible, used, number):
    for rank in range(2):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible[rank])
        recorder = Recorder(tmp_path, Process(rank, 2))
        recorder.end(0, Report(summary=Summary("sim", 1, 2, 1, used=(used[rank],))), ["train.py"], [])
    summary = merging.merge([tmp_path]).report.summary
    assert (summary.streams, summary.devices) == (4, number)


def test_equal_ranks_have_no_findings(tmp_path):
    write(tmp_path, [[(REDUCE, 1), (GATHER, 2)] * 2000] * 3)
    merged = merging.merge([tmp_path])
    assert (merged.report.findings, merged.report.incomplete, merged.is_complete) == ((), (), True)
    assert merged.report.summary == Summary("sim", 3, 3, 1, 0.5, ranks=3)


@settings(max_examples=60)
@given(length=st.integers(0, 3 * BLOCK), data=st.data())
def test_the_first_difference_is_found_wherever_it_is(tmp_path_factory, length, data):
    folder = tmp_path_factory.mktemp("job")
    where = data.draw(st.integers(0, length))
    odd = data.draw(st.integers(0, 2))
    common = [(REDUCE, 1)] * length
    other = [*common[:where], (GATHER, 7), *common[where:]]
    write(folder, [other if rank == odd else [*common, (REDUCE, 1)] for rank in WORLD])
    (finding,) = mismatches(folder)
    assert (
        finding.message == f"rank {odd} issues all_gather(float32 [4]) where all_reduce(float32 [4], sum) is expected"
    )
    assert (finding.location.frame.line, finding.ranks) == (7, (odd,))
    assert finding.related[0].frame.line == 1


@pytest.mark.parametrize("where", [0, 5, BLOCK + 5])
def test_every_differing_rank_of_a_large_job_is_named(tmp_path, monkeypatch, where):
    n_read = []
    monkeypatch.setattr(merging, "read", lambda path: n_read.append(path) or read(path))
    odd, ranks = (3, 11, 12, 13, 14, 15, 16, 29), range(40)
    common = [(REDUCE, 1)] * (BLOCK + 10)
    sequences = [[*common[:where], (GATHER, 100 + rank), *common] if rank in odd else common for rank in ranks]
    write(tmp_path, sequences, size=40, members=tuple(ranks))
    (finding,) = mismatches(tmp_path)
    assert finding.ranks == odd
    assert finding.message.startswith("rank 3 issues all_gather(float32 [4]) where all_reduce")
    assert [location.frame.line for location in finding.related] == [1, 111, 112]
    assert len(n_read) < 60  # each rank once, and a few of each kind again


@pytest.mark.parametrize("more", [1, BLOCK - 3, BLOCK, 2 * BLOCK])
def test_a_rank_that_issues_fewer_collectives_but_succeeds_is_reported(tmp_path, more):
    write(tmp_path, [[(REDUCE, 1)] * 3, [(REDUCE, 1)] * (3 + more), [(REDUCE, 1)] * (3 + more)])
    (finding,) = mismatches(tmp_path)
    assert finding.message == "rank 0 issues no further collective where all_reduce(float32 [4], sum) is expected"
    assert finding.ranks == (0,)


def test_a_rank_that_issues_one_more_collective_is_the_odd_one(tmp_path):
    write(tmp_path, [[(REDUCE, 1), (GATHER, 5)], [(REDUCE, 1)], [(REDUCE, 1)]])
    (finding,) = mismatches(tmp_path)
    assert finding.message == "rank 0 issues all_gather(float32 [4]) where no further collective is expected"
    assert (finding.location.frame.line, finding.ranks) == (5, (0,))


@pytest.mark.parametrize("status", [1, None])
def test_a_rank_that_failed_on_its_own_is_not_a_mismatch(tmp_path, status):
    write(tmp_path, [[(REDUCE, 1)] * 2, [(REDUCE, 1)] * 3, [(REDUCE, 1)] * 3], ends=(status, 1, 1))
    assert mismatches(tmp_path) == []


def test_a_rank_that_never_used_a_group_is_compared_too(tmp_path):
    write(tmp_path, [[(REDUCE, 1)], [], []])
    assert mismatches(tmp_path)[0].message.endswith("where no further collective is expected")


def test_ranks_outside_a_group_are_not_expected_in_it(tmp_path):
    write(tmp_path, [[(REDUCE, 1)], [(REDUCE, 1)], []], members=(0, 1))
    assert mismatches(tmp_path) == []


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 30), broken=st.booleans())
def test_sent_and_expected_sizes_must_match(tmp_path_factory, seed, broken):
    folder, draw = tmp_path_factory.mktemp("job"), random.Random(seed)
    sequences = [[] for _ in WORLD]
    length = draw.randrange(1, 40)
    bad = draw.randrange(length) if broken else -1
    for step in range(length):
        rows = [[draw.randrange(5) for _ in WORLD] for _ in WORLD]
        for me in WORLD:
            sent = [(me, other, rows[me][other]) for other in WORLD if other != me]
            got = [(other, me, rows[other][me]) for other in WORLD if other != me]
            if step == bad and me == 1:
                got[0] = (*got[0][:2], got[0][2] + 1)
            sequences[me].append((Signature("all_to_all_single", "float32", pairs=(*sent, *got)), step))
    write(folder, sequences)
    found = mismatches(folder)
    if not broken:
        assert found == []
        return
    (finding,) = found
    elements = next(n for a, b, n in sequences[0][bad][0].pairs if (a, b) == (0, 1))
    expected = f"rank 0 issues all_to_all_single with {elements} elements for rank 1 where {elements + 1} is expected"
    assert (finding.message, finding.location.frame.line) == (expected, bad)


def test_equal_findings_of_several_ranks_are_merged_into_one(tmp_path):
    finding = Finding.of(unordered_read.RULE, location(4), reader="s", tensor="t", writer="w")
    for rank in WORLD:
        recorder = Recorder(tmp_path, Process(rank, 3))
        own = [finding.counted(2)] if rank != 1 else []
        recorder.end(0, Report(tuple(own), notes=("the same",), incomplete=("rare",) * (rank == 2)), [], [])
    report = merging.merge([tmp_path]).report
    assert [(f.count, f.rank, f.ranks) for f in report.findings] == [(4, 0, (0, 2))]
    assert (report.notes, report.incomplete) == (("the same",), ("rank 2: rare",))


def test_comments_used_by_any_rank_are_not_unused(tmp_path):
    for rank in WORLD:
        Recorder(tmp_path, Process(rank, 3)).end(0, Report(), [], ["all"] + ["two"] * (rank > 0))
    assert merging.merge([tmp_path]).report.notes == ("all",)


def test_ranks_that_wait_for_each_other_in_different_groups_are_reported(tmp_path):
    groups = [Group("0", (0, 1)), Group("1", (0, 1))]
    for rank in (0, 1):
        recorder = Recorder(tmp_path, Process(rank, 2))
        for site, group in enumerate(groups if rank == 0 else reversed(groups), 1):
            recorder.issue(group, REDUCE, 10 * rank + site, location)
        stuck = {"group": str(rank), "what": "a collective", "place": serialization.of_location(location(99))}
        recorder.record("hung", stuck)
        recorder.end(1, Report(), [], [])
    (finding,) = mismatches(tmp_path)
    reduce = "all_reduce(float32 [4], sum)"
    assert finding.message == f"rank 1 issues {reduce} in group 1 where {reduce} in group 0 is expected"
    assert (finding.location.frame.line, finding.related[0].frame.line) == (11, 1)


# -- bad input


def test_a_part_truncated_in_the_middle_is_read_up_to_that_point(tmp_path):
    write(tmp_path, [[(REDUCE, 1)] * 1500 + [(GATHER, 7)], [(REDUCE, 1)] * 1501, []], ends=(None, None, None), size=2)
    for path in paths(tmp_path):
        text = path.read_bytes()
        path.write_bytes(text + b'["site",9,{"fra')
        ops = path.with_suffix(".ops")
        ops.write_bytes(ops.read_bytes() + b"\0\1")
    report = merging.merge([tmp_path]).report
    assert [f.message for f in report.findings] == [
        "rank 1 issues all_reduce(float32 [4], sum) where all_gather(float32 [4]) is expected"
    ]
    assert "the record has no end" in report.incomplete[0]


def test_a_part_without_the_entries_its_numbers_refer_to_is_still_read(tmp_path):
    write(tmp_path, [[(REDUCE, 1)] * 3] * 3, ends=(None, 0, 0))
    path = paths(tmp_path)[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
    assert merging.merge([tmp_path]).report.findings == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [], "is empty"),
        (lambda lines: ["{}\n"], "damaged"),
        (
            lambda lines: [lines[0].replace('"format":1', '"format":99'), *lines[1:]],
            "whose format this version cannot read",
        ),
        (lambda lines: [*lines[:2], "garbage\n", *lines[2:]], "damaged"),
        (lambda lines: [*lines[:2], '["unheard of"]\n', *lines[2:]], "damaged"),
    ],
    ids=["empty", "no part", "another format", "no JSON", "an unknown line"],
)
def test_a_damaged_part_is_reported_and_the_others_count(tmp_path, change, words):
    write(tmp_path, [[(REDUCE, 1)] * 3, [(REDUCE, 1)] * 2 + [(GATHER, 3)], [(REDUCE, 1)] * 3])
    path = paths(tmp_path)[2]
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    merged = merging.merge([tmp_path])
    assert any(words in reason for reason in merged.report.incomplete), merged.report.incomplete
    assert any("rank 2 of 3 left no record" in reason for reason in merged.report.incomplete)
    assert len(merged.report.findings) == 1  # that of ranks 0 and 1
    assert not merged.is_complete


def test_two_jobs_in_one_folder_are_not_mixed(tmp_path):
    for job in ("job-1", "job-2"):
        (tmp_path / job).mkdir()
        write(tmp_path / job, [[(REDUCE, 1)]] * 3)
    with pytest.raises(RecordError, match="contains 2 jobs: job-1, job-2"):
        merging.merge([tmp_path])
    assert merging.merge([tmp_path / "job-2"]).is_complete


def test_folders_from_separate_file_systems_can_be_merged(tmp_path):
    for name, ranks in (("one", [0]), ("two", [1, 2])):
        (tmp_path / name).mkdir()
        for rank in ranks:
            recorder = Recorder(tmp_path / name, Process(rank, 3))
            recorder.issue(Group("0", WORLD), GATHER if rank == 2 else REDUCE, 1, location)
            recorder.end(0, Report(), [], [])
    assert len(merging.merge([tmp_path / "one", tmp_path / "two"]).report.findings) == 1


@pytest.mark.parametrize(("name", "words"), [("missing", "no such folder"), ("", "no rank records")])
def test_a_folder_without_parts_is_an_error(tmp_path, name, words):
    with pytest.raises(RecordError, match=words):
        merging.merge([tmp_path / name])


def test_a_job_that_is_being_removed_cannot_be_claimed_again(tmp_path, monkeypatch):
    folder, rmtree, claimed = tmp_path / "job", shutil.rmtree, []
    folder.mkdir()
    assert merging.claim(folder)

    def remove_slowly(path, **kwargs):
        (Path(path) / "merged").unlink()
        claimed.append(merging.claim(folder))
        rmtree(path, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", remove_slowly)
    merging.remove(folder)
    assert claimed == [False]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_renamed_is_still_removed(tmp_path, monkeypatch):
    folder = tmp_path / "job"
    folder.mkdir()

    def raise_permission_error(self, target):
        raise PermissionError

    monkeypatch.setattr(Path, "rename", raise_permission_error)
    merging.remove(folder)
    assert not folder.exists()


def test_only_the_last_attempt_of_a_job_is_compared(tmp_path):
    write(tmp_path, [[(REDUCE, 1)], [(REDUCE, 1), (GATHER, 2)], [(REDUCE, 1)]], ends=(1, 1, 1))
    for path in list(tmp_path.iterdir()):  # a second attempt has its own processes
        path.rename(path.with_name(path.name.replace(path.name.split("-")[-1].split(".")[0], "99999999")))
    write(tmp_path, [[(REDUCE, 1)]] * 3, attempt=1)
    assert mismatches(tmp_path) == []


def test_a_process_that_cannot_write_fails_at_the_end(tmp_path):
    recorder = Recorder(tmp_path, Process(0, 2))
    recorder._failure = OSError("the disk is full")
    with pytest.raises(OSError, match="disk is full"):
        recorder.end(0, Report(), [], [])


def test_finished_and_dead_processes_are_over(tmp_path):
    recorder = Recorder(tmp_path, Process(0, 2))
    (path,) = paths(tmp_path)
    assert not writer.has_ended(path)
    gone = path.with_name(path.name.replace(str(writer.local_pid(path)), "4194399"))
    assert writer.has_ended(gone)
    elsewhere = Path(str(path).replace(writer._host(), "another-machine"))
    assert (writer.local_pid(elsewhere), writer.has_ended(elsewhere)) == (0, False)
    recorder.end(0, Report(), [], [])
    assert writer.has_ended(path)
    part, _ = read(path)
    assert (part.is_done, part.process) == (True, Process(0, 2))


@pytest.mark.parametrize(
    ("ranks", "words"),
    [((), ""), ((3,), "rank 3"), ((1, 0), "ranks 0 and 1"), ((0, 1, 2, 3), "ranks 0 to 3"),
     ((0, 1, 2, 5, 7, 8), "ranks 0 to 2, 5, 7 and 8")],
)  # fmt: skip
def test_ranks_are_named_in_words(ranks, words):
    assert format_ranks(ranks) == words


def test_a_signature_survives_a_round_trip_through_a_file():
    signature = Signature("all_to_all", "int64", "max", 3, ((0, 1, 5), (1, 0, 2)))
    assert Signature.of(json.loads(json.dumps(signature.data()))) == signature
    assert signature.differences(replace(signature, root=1)) == ["root"]
    assert str(signature) == "all_to_all(int64, max, root 3)"
