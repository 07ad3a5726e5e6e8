"""Memory statistics of a virtual GPU."""

from syncheck.sim.memory_counters import MemoryCounters, block_of


def test_a_block_is_a_multiple_of_512_bytes():
    assert [block_of(size).n_bytes for size in (1, 512, 513)] == [512, 512, 1024]
    assert [block_of(size).pool for size in (1 << 20, (1 << 20) + 1)] == ["small_pool", "large_pool"]


def test_allocations_and_frees_are_counted():
    memory = MemoryCounters()
    for size in (0, 100, 2 << 20):
        memory.allocate(size)
    memory.free(100)
    stats = memory.nested()
    assert stats["allocated_bytes"]["all"] == {
        "current": 2 << 20, "peak": (2 << 20) + 512, "allocated": (2 << 20) + 512, "freed": 512,
    }  # fmt: skip
    assert stats["requested_bytes"]["small_pool"]["freed"] == 100
    assert stats["allocation"]["large_pool"]["current"] == 1
    assert (stats["num_device_alloc"], stats["num_device_free"]) == (2, 1)
    assert stats["inactive_split"]["all"]["peak"] == 0


def test_peaks_and_totals_can_be_reset():
    memory = MemoryCounters()
    for size in (100, 100):
        memory.allocate(size)
    memory.free(100)
    memory.n_emptied = memory.n_failed = 1
    memory.reset_peak()
    assert (memory.peak, memory.nested()["allocated_bytes"]["all"]["allocated"]) == (512, 1024)
    memory.reset_accumulated()
    figures = memory.nested()["allocated_bytes"]["all"]
    assert (memory.current, figures["allocated"], figures["freed"]) == (512, 0, 0)
    assert memory.nested()["num_ooms"] == memory.nested()["num_sync_all_streams"] == 0


def test_statistics_do_not_depend_on_when_they_are_read():
    read, unread = MemoryCounters(), MemoryCounters()
    for step in range(5000):
        for memory in (read, unread):
            memory.allocate(step % 700 * 4000 + 1)
            if step % 3:
                memory.free(step % 700 * 4000 + 1)
        assert read.peak >= read.current == unread.current
    assert read.nested() == unread.nested()
