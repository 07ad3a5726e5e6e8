"""The current device, stream and pool of the calling thread."""

import pytest

from syncheck.hb.ids import Context


@pytest.fixture
def threads(gpu):
    return gpu.cuda.threads


def test_a_thread_that_inherits_a_stream_is_special(threads):
    seen = []
    threads.on_first_thread.append(lambda: seen.append(1))
    threads.state.inherited = (0, {})
    threads.entered()
    assert (threads.n_checked_contexts, threads.state.inherited) == (0, None)
    for _ in range(2):
        threads.state.inherited = (0, {0: 9})
        threads.entered()
    assert (threads.n_checked_contexts, seen) == (2, [1])
    threads.left()
    assert threads.n_checked_contexts == 1


def test_a_thread_that_lost_its_stream_is_reported_once(gpu, threads):
    side = gpu.cuda.streams.of(0, 7)
    threads.state.inherited = (0, {0: side})
    threads.entered()
    site = gpu.cuda.reporter.site()
    assert threads.context(1, 0, -1, site) == Context(side, 0)
    assert threads.context(1, 0, -1, site) == Context(side, 0)
    assert gpu.monitor.named("lost_context") == [("lost_context", 1, side, site)]
    assert threads.n_checked_contexts == 1
    threads.left()
    assert threads.n_checked_contexts == 0


def test_a_thread_that_lost_nothing_is_no_longer_special(gpu, threads):
    side = gpu.cuda.streams.of(0, 7)
    threads.state.inherited = (0, {0: side})
    threads.entered()
    assert threads.context(side, 0, -1, 5) is None
    assert threads.n_checked_contexts == 0


def test_a_stream_of_another_device_does_not_apply(gpu, threads):
    gpu.cuda.streams.of(1, 0)
    far = gpu.cuda.streams.of(1, 8)
    threads.state.contexts.append((far, 50))
    assert threads.context(1, 0, -1, 5) == Context(far, 50)
    assert threads.context(1, 0, 1, 5) is None
    threads.state.contexts.clear()


def test_memory_comes_from_the_pool_of_the_device(threads):
    assert threads.pool(1) == 0
    threads.state.pools[0] = 3
    assert threads.pool(1) == 3
    threads.state.pools.clear()
