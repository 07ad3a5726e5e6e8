"""Search for all tensors of the program."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from syncheck.instrument.living_tensors import living_tensors


def test_tensors_of_all_generations_are_found():
    old = [torch.ones(1), torch.nn.Parameter(torch.ones(1))]
    gc.collect()
    gc.collect()
    new = torch.ones(1)
    found = living_tensors()
    assert all(any(tensor is other for other in found) for tensor in (*old, new))
    assert {type(tensor) for tensor in found} <= {torch.Tensor, torch.nn.Parameter}


def test_tensor_subclasses_are_not_found():
    class Subclass(torch.Tensor):
        pass

    subclassed = torch.ones(1).as_subclass(Subclass)
    assert not any(tensor is subclassed for tensor in living_tensors())


def test_nothing_is_kept_alive():
    things = [(object(), number) for number in range(100)]
    before = [sys.getrefcount(thing) for thing in things]
    living_tensors()
    assert [sys.getrefcount(thing) for thing in things] == before


@pytest.mark.parametrize("was_enabled", [False, True])
def test_the_state_of_garbage_collection_is_restored(was_enabled):
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        living_tensors()
        assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if before else gc.disable)()


def errors_in_other_threads():
    """Return the errors of threads that create tuples while the tensors are listed."""
    made, errors, stop = [], [], threading.Event()

    def work():
        while not stop.is_set():
            try:
                made.append(len(tuple(number for number in range(60))))
            except SystemError as error:
                errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(5):
            living_tensors()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert len(made) > 20
    return errors


def test_other_threads_can_keep_creating_tuples():
    assert errors_in_other_threads() == []


def test_an_audit_hook_does_not_let_them_run_meanwhile():  # filelock, which torch uses, has one
    code = f"import sys; sys.addaudithook(lambda *_: None); from {__name__} import *; print(errors_in_other_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
