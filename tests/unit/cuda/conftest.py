"""Shared fixtures of the CUDA backend's tests."""

import fcntl
import gc
import os

import pytest

from syncheck.cuda.native_build import extension


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """Return the native extension, built once, as it takes 25 seconds of CPU time, and shared by all workers and runs.

    Its file name contains a hash of everything that the build depends on.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else base.parent) / "native"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv("SYNCHECK_CACHE_DIR", str(folder))
        return extension("native", print)


@pytest.fixture
def collection():
    """Enable garbage collection for the test, then restore its previous state."""
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()
