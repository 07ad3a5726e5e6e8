"""Shared fixtures of the CUDA backend's tests."""

import fcntl
import gc
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from syncheck.cuda import native_build


@pytest.fixture(scope="session")
def builds(tmp_path_factory):
    """Return a context manager that provides the folder of built extensions, which all workers and runs share.

    Each takes about 25 seconds of CPU time. Its file name contains a hash of everything that the build depends on.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parents[1] if "PYTEST_XDIST_WORKER" in os.environ else base.parent) / "native"
    folder.mkdir(exist_ok=True)

    @contextmanager
    def locked():
        with pytest.MonkeyPatch.context() as patch, (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            patch.setenv("SYNCHECK_CACHE_DIR", str(folder))
            yield

    return locked


@pytest.fixture(scope="session")
def engine_thread(builds):
    """Return the extension `engine_thread.cpp`, which registers an operator."""
    source = Path(__file__).with_name("engine_thread.cpp")
    with builds():
        return native_build.built("engine_thread", [source], [source], lambda: None)


@pytest.fixture(scope="session")
def recorder(builds, engine_thread):
    """Return the native recorder, loaded after all operators have been registered."""
    assert engine_thread is not None
    with builds():
        return native_build.extension("native", print)


@pytest.fixture
def collection():
    """Enable garbage collection for the test, then restore its previous state."""
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()
