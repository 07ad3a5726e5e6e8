"""Answers the questions of the seed documents in the simulator."""

import pytest

from tests import warm
from tests.overlap.answers import COPY, PRODUCT, SEEDS, Answer


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    known = {}

    def of(name):
        if name not in known:
            trace = folder / f"{name}.trace"
            options = ("--backend", "sim", "--trace", str(trace), "--exit-zero")
            done = warm.run("syncheck", "run", *options, f"{name}.py", folder=SEEDS)
            assert done.returncode == 0, done.stderr
            known[name] = Answer(trace)
        return known[name]

    return of


# -- 001: two blocks in parallel


def test_two_blocks_on_one_stream_run_in_turn(answer):
    one = answer("parallel_blocks_one_stream")
    assert one.words.verdicts[0].startswith("all work is on one stream")
    order = one.edge("stream order")
    assert "not needed" in order.need
    assert order.speed_up > 1.2
    assert [line.source.strip() for line in [order.location.frame]] == ["x2 = self.block2(x)"]


def test_two_blocks_on_two_streams_overlap(answer):
    two = answer("parallel_blocks_two_streams")
    (pair,) = [pair for pair in two.analysis.pairs if pair.free]
    assert pair.overlapped > 0.9 * pair.free
    assert two.analysis.makespan < answer("parallel_blocks_one_stream").analysis.makespan


def test_small_blocks_on_two_streams_wait_for_the_host(answer):
    assert any("wait for the host to launch" in verdict for verdict in answer("parallel_blocks_right").words.verdicts)


# -- 002: a copy between two GPUs next to a product


@pytest.mark.parametrize("blocking", ["blocking", "non_blocking"])
@pytest.mark.parametrize("aside", ["default", "sender", "receiver", "both"])
def test_a_copy_between_gpus_overlaps_only_with_side_streams_on_both(answer, aside, blocking):
    one = answer(f"transfer_{aside}_{blocking}")
    assert (one.overlap(COPY, PRODUCT) > 0) == (aside == "both")


@pytest.mark.parametrize("blocking", ["blocking", "non_blocking"])
@pytest.mark.parametrize(
    ("aside", "kind"),
    [
        ("default", "copy on the default stream"),
        ("receiver", "copy on the default stream"),
        ("sender", "other device waits for the copy"),
    ],
)
def test_the_edge_that_prevents_the_overlap_is_named(answer, aside, blocking, kind):
    line = answer(f"transfer_{aside}_{blocking}").edge(kind)
    assert "moved = a.to" in line.location.frame.source
    assert "the default stream of cuda:1 waits" in line.text
    assert line.need.startswith("needed because `moved`")
    assert line.speed_up > 1.1


@pytest.mark.parametrize("blocking", ["blocking", "non_blocking"])
@pytest.mark.parametrize("aside", ["default", "sender", "receiver", "both"])
def test_the_verdict_names_that_edge_and_the_change_to_make(answer, aside, blocking):
    verdict = answer(f"transfer_{aside}_{blocking}").words.verdicts[0]
    assert ("times as fast: make" in verdict and f"transfer_{aside}_{blocking}.py:" in verdict) == (aside != "both")


def test_the_transfer_still_overlaps_with_both_waits(answer):
    one = answer("transfer_both_right")
    assert one.overlap(COPY, PRODUCT) > 0
    assert all(line.speed_up < 1.05 for line in one.words.edges)


# -- 004: a pipeline on two GPUs


def test_pipeline_stages_with_whole_batches_run_in_turn_and_need_micro_batches(answer):
    one = answer("pipeline_whole_batch")
    (verdict,) = [verdict for verdict in one.words.verdicts if "take turns" in verdict]
    assert "micro-batches" in verdict


def test_pipeline_stages_with_micro_batches_overlap(answer):
    whole, parts = answer("pipeline_whole_batch"), answer("pipeline_micro_batches")
    assert not any("take turns" in verdict for verdict in parts.words.verdicts)
    (before,), (after,) = whole.analysis.device_pairs, parts.analysis.device_pairs
    assert after.overlapped > 3 * before.overlapped


# -- 000: loading while computing


def test_copying_the_next_batch_overlaps_with_work_on_the_current_one(answer):
    pairs = answer("overlap_right").analysis.pairs
    assert any(pair.overlapped > 0 for pair in pairs)
