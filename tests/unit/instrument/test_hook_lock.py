"""The lock that guards the checker's state."""

import gc
import threading

import pytest

from syncheck.instrument.hook_lock import HookLock


@pytest.fixture(autouse=True)
def collecting():
    assert gc.isenabled()
    yield
    gc.enable()


def test_no_garbage_is_collected_while_the_lock_is_held():
    lock = HookLock()
    with lock:
        with lock:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_collection_that_the_program_disabled_stays_disabled():
    gc.disable()
    with HookLock():
        pass
    assert not gc.isenabled()


def test_the_lock_is_released_after_an_error():
    lock = HookLock()
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    assert gc.isenabled()
    entered = []

    def enter():
        with lock:
            entered.append(gc.isenabled())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [False]


def test_one_thread_at_a_time_holds_the_lock():
    lock, total = HookLock(), [0]

    def count():
        for _ in range(2000):
            with lock:
                before = total[0]
                total[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == [8000]
    assert gc.isenabled()


def test_a_forked_child_collects_garbage_again():
    lock = HookLock()
    with lock:
        lock.release_garbage()
        assert gc.isenabled()
    assert gc.isenabled()
