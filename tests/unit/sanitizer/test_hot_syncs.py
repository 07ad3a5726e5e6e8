"""Host synchronizations that a loop makes on every iteration."""

import pytest

from syncheck.findings import Frame
from syncheck.hb.clock import HOST
from syncheck.sanitizer.hot_syncs import HotSyncs
from syncheck.sanitizer.iteration_counter import HOT, IterationCounter
from tests.unit.sanitizer.program import Text, found, new_collector, new_engine

ITEM = "aten::_local_scalar_dense"


class Loop:
    """A loop that launches one operator on each iteration."""

    def __init__(self, devices=1, streams=2):
        self.collector = new_collector()
        self.engine = new_engine(streams, self.collector, devices)
        self.counter = IterationCounter()
        self.syncs = HotSyncs(self.engine, self.collector, self.counter)

    def launch(self, stream=1):
        self.counter.launches[10] = self.counter.launches.get(10, 0) + 1
        if self.syncs.is_waiting:
            self.syncs.launched(stream)
        self.engine.launch(stream, (), 1)

    def device_waits(self, site=50, device=0):
        self.syncs.device_waits(site, device, self.collector.names)
        self.engine.sync_device(device)

    def codes(self):
        return [(code, line) for code, line, _ in found(self.collector)]

    def finding(self):
        (finding,) = self.collector.findings(Text())
        return finding


@pytest.fixture
def loop():
    return Loop()


# -- SYN801


ON_GPU, PINNED = 1, 2
"""Allocations."""


def read(loop, iterations, operator=ITEM, accesses=()):
    for _ in range(iterations):
        loop.launch()
        loop.syncs.host_waits(50, operator, accesses)


def test_a_read_is_hot_from_the_twentieth_iteration(loop):
    read(loop, HOT - 1)
    assert loop.codes() == []
    read(loop, 1)
    assert loop.codes() == [("SYN801", 50)]


@pytest.mark.parametrize(
    ("path", "is_user", "reported"),
    [
        ("torch/optim/lbfgs.py", False, False),
        ("torch/amp/grad_scaler.py", False, False),
        ("torch/nn/utils/clip_grad.py", False, True),
        ("torch/optim/lr_scheduler.py", False, True),  # `ReduceLROnPlateau.step` gets a value that it reads
        ("torch/optim/swa_utils.py", False, True),
        ("torch/optim/mine.py", True, True),
    ],
)
def test_reads_that_a_step_of_torch_makes_are_not_reported(loop, path, is_user, reported):
    read(loop, HOT)
    sites = Text()
    sites.stacks[50] = (Frame(path, 1, is_user=is_user), Frame("program.py", 50))
    assert bool(loop.collector.findings(sites)) == reported


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (ITEM, "`.item()`"),
        ("aten::copy_", "a copy to the host"),
        ("", "`synchronize()`"),
        ("aten::nonzero", "`nonzero`"),
    ],
)
def test_the_message_names_the_call(loop, operator, words):
    read(loop, HOT, operator)
    assert words in loop.finding().message


@pytest.mark.parametrize(("operator", "codes"), [("aten::copy_", []), (ITEM, []), ("aten::nonzero", [("SYN801", 50)])])
def test_a_loop_that_only_copies_values_to_the_host_cannot_launch_ahead(loop, operator, codes):
    for _ in range(2 * HOT):  # torch.save: copies in a row, all at the line of the call
        loop.counter.launches[50] = loop.counter.launches.get(50, 0) + 1
        loop.engine.launch(1, (), 50)
        loop.syncs.host_waits(50, operator)
    assert loop.codes() == codes


@pytest.mark.parametrize("operator", ["aten::copy_", "aten::_to_copy"])
def test_a_copy_to_the_gpu_is_not_a_read(loop, operator):
    loop.engine.allocate(ON_GPU, 1, 64, 0, 1)
    read(loop, 2 * HOT, operator, [(ON_GPU, 0, True)])  # from pageable memory
    assert loop.codes() == []
    read(loop, HOT + 1, operator, [(ON_GPU, 0, False)])
    assert loop.codes() == [("SYN801", 50)]


@pytest.mark.parametrize("operator", ["aten::copy_", "aten::_to_copy"])
def test_a_copy_from_pinned_memory_need_not_wait(loop, operator):
    loop.engine.allocate(ON_GPU, 1, 64, 0, 1)
    loop.engine.allocate(PINNED, HOST, 64, -1, 1)
    read(loop, HOT, operator, [(PINNED, 0, False), (ON_GPU, 0, True)])
    finding = loop.finding()
    assert finding.message.endswith("a copy from pinned memory")
    assert finding.help.startswith("pass `non_blocking=True`")


@pytest.mark.parametrize("operator", ["aten::copy_", "aten::_to_copy"])
def test_a_copy_to_pinned_memory_is_a_copy_to_the_host(loop, operator):
    loop.engine.allocate(ON_GPU, 1, 64, 0, 1)
    loop.engine.allocate(PINNED, HOST, 64, -1, 1)
    read(loop, HOT, operator, [(ON_GPU, 0, False), (PINNED, 0, True)])
    assert loop.finding().message.endswith("a copy to the host")


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("aten::index", "a slice"),
        ("aten::repeat_interleave", "`output_size`"),
        ("aten::nonzero", "`torch.where`"),
        (ITEM, "every few iterations"),
        ("aten::unknown", "every few iterations"),
    ],
)
def test_the_advice_is_that_for_the_operator(loop, operator, words):
    read(loop, HOT, operator)
    assert words in loop.finding().help


def test_another_operator_that_writes_and_waits_is_a_read(loop):
    loop.engine.allocate(ON_GPU, 1, 64, 0, 1)
    read(loop, HOT, "aten::masked_select", [(ON_GPU, 0, True)])
    assert loop.codes() == [("SYN801", 50)]


# -- SYN806


def test_a_device_wide_wait_before_more_work_is_unnecessary(loop):
    for _ in range(HOT + 1):
        loop.launch()
        loop.device_waits()
    assert loop.codes() == []
    loop.launch()
    assert loop.codes() == [("SYN806", 50)]
    assert "stream order alone" in loop.finding().message
    assert "remove the call" in loop.finding().help


def test_with_work_on_two_streams_a_stream_wait_is_suggested(loop):
    for _ in range(HOT + 1):
        loop.launch(1)
        loop.engine.launch(2, (), 1)
        loop.device_waits()
    loop.launch()
    assert "`wait_stream`" in loop.finding().message
    assert "make the stream that needs the work wait" in loop.finding().help


def test_a_wait_followed_by_a_host_access_is_needed(loop):
    for _ in range(2 * HOT):
        loop.launch()
        loop.device_waits()
        loop.syncs.host_inspects()
    assert loop.codes() == []


def test_a_wait_that_was_needed_once_restarts_the_count(loop):
    for iteration in range(2 * HOT):
        loop.launch()
        loop.device_waits()
        if iteration == HOT - 2:
            loop.syncs.host_inspects()
    assert loop.codes() == []
    loop.launch()
    assert loop.codes() == [("SYN806", 50)]


def test_a_host_access_justifies_only_the_latest_wait(loop):
    loop.launch()
    loop.device_waits(60)
    loop.launch()
    loop.device_waits(50)
    loop.syncs.host_inspects()
    assert not loop.syncs.is_waiting


def test_a_wait_without_pending_work_is_ignored(loop):
    loop.device_waits()
    assert not loop.syncs.is_waiting
    loop.launch()
    loop.device_waits()
    assert loop.syncs.is_waiting
    loop.launch()
    assert not loop.syncs.is_waiting


def test_only_work_on_the_waited_for_device_counts():
    loop = Loop(devices=2)
    loop.launch(1)
    loop.device_waits(device=1)
    assert not loop.syncs.is_waiting
    loop.device_waits(device=0)
    assert loop.syncs.is_waiting


def test_a_launch_without_a_preceding_wait_is_ignored(loop):
    loop.syncs.launched(1)
    assert loop.codes() == []


def test_an_occasional_unnecessary_wait_is_not_reported(loop):
    for _ in range(3 * HOT):
        for _ in range(4):
            loop.launch()
        loop.device_waits()
    loop.launch()
    assert loop.codes() == []
