"""The graph captures in progress."""

import gc
import threading

import pytest

from syncheck.cuda.captures import Captures


@pytest.fixture
def captures(gpu):
    return Captures(gpu.cuda.reporter)


def elsewhere(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_capture_belongs_to_the_thread_that_began_it(captures):
    assert not captures
    captures.begin()
    assert captures
    assert captures.is_own()
    assert not elsewhere(captures.is_own)
    captures.end()
    assert not captures


def test_another_thread_may_end_it(captures):
    elsewhere(captures.begin)
    captures.begin()
    captures.end()
    assert not captures.is_own()
    captures.end()
    assert not captures


def test_what_cuda_refuses_is_reported(gpu, captures):
    captures.refuse("Event.synchronize()")
    assert [call[1] for call in gpu.monitor.named("sync_in_capture")] == ["Event.synchronize()"]


def test_a_check_that_ends_in_a_capture_lets_garbage_be_collected(captures, collection):
    captures.hold_garbage()
    captures.begin()
    assert not gc.isenabled()
    captures.forget()
    assert gc.isenabled()
    assert not captures
