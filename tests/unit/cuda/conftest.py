"""What several tests of the CUDA backend need."""

import fcntl
import gc

import pytest

from syncheck.cuda.native_build import extension


@pytest.fixture(scope="session")
def recorder(tmp_path_factory):
    """The extension, built once by all workers of a run."""
    folder = tmp_path_factory.getbasetemp().parent / "native"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv("SYNCHECK_CACHE_DIR", str(folder))
        return extension("native", print)


@pytest.fixture
def collection():
    """Python's garbage collection, on; as it was before after the test."""
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()
