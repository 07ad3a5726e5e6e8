"""Graph captures in progress."""

import gc
import threading

import pytest

from syncheck.cuda.captures import Captures


@pytest.fixture
def captures(gpu):
    return Captures(gpu.cuda.reporter)


def in_other_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_capture_belongs_to_the_thread_that_began_it(captures):
    assert not captures
    captures.begin()
    assert captures
    assert captures.is_in_this_thread()
    assert not in_other_thread(captures.is_in_this_thread)
    captures.end()
    assert not captures


def test_another_thread_may_end_a_capture(captures):
    in_other_thread(captures.begin)
    captures.begin()
    captures.end()
    assert not captures.is_in_this_thread()
    captures.end()
    assert not captures


def test_a_synchronization_that_cuda_rejects_is_reported(gpu, captures):
    captures.report_forbidden("Event.synchronize()")
    assert [call[1] for call in gpu.monitor.named("sync_in_capture")] == ["Event.synchronize()"]


def test_ending_a_check_during_a_capture_reenables_garbage_collection(captures, collection):
    captures.hold_garbage()
    captures.begin()
    assert not gc.isenabled()
    captures.forget()
    assert gc.isenabled()
    assert not captures
