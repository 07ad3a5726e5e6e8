"""Shared fixtures of the CUDA backend's tests."""

import fcntl
import gc

import pytest

from syncheck.cuda.native_build import extension


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """Return the native extension, built once and shared by all workers of a run."""
    folder = tmp_path_factory.getbasetemp().parent / "native"
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
