"""The native recorder is built where it can be, and said to be missing where it cannot."""

import sys
from pathlib import Path

import pytest
from torch.utils import cpp_extension

from syncheck.cuda import native_build
from syncheck.errors import BackendError


@pytest.fixture(autouse=True)
def not_known(monkeypatch, tmp_path):
    monkeypatch.setattr(native_build, "_known", [])
    monkeypatch.setenv("SYNCHECK_CACHE_DIR", str(tmp_path))


@pytest.fixture
def tools(monkeypatch):
    """Whatever is looked for is there."""
    monkeypatch.setattr(native_build.shutil, "which", lambda name: f"/usr/bin/{name}")


def built_by(monkeypatch, make):
    """Let `make(folder)` stand for the compiler."""
    monkeypatch.setattr(
        cpp_extension, "load", lambda name, sources, *, extra_cflags, build_directory: make(Path(build_directory))
    )


def reason(monkeypatch):
    """Return the note of a run that wants the recorder if there is one."""
    notes = []
    monkeypatch.setattr(native_build.torch.cuda, "is_available", lambda: True)
    assert native_build.extension("auto", notes.append) is None
    assert native_build.extension("auto", notes.append) is None
    return notes[-1]


def test_nothing_is_built_for_the_recorder_in_python_or_without_a_gpu(monkeypatch):
    notes = []
    assert native_build.extension("python", notes.append) is None
    monkeypatch.setattr(native_build.torch.cuda, "is_available", lambda: False)
    assert native_build.extension("auto", notes.append) is None
    assert notes == []


def test_without_a_compiler_one_line_says_what_is_used(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    text = reason(monkeypatch)
    assert "compiler" in text
    assert text.endswith("; the Python recorder is used")


def test_an_older_torch_has_none(monkeypatch):
    monkeypatch.setattr(native_build, "_OLDEST", (99, 0))
    assert "it needs torch 99.0" in reason(monkeypatch)


def test_without_ninja_the_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None if name == "ninja" else name)
    assert "pip install ninja" in reason(monkeypatch)


def test_a_compiler_that_fails_leaves_a_log(monkeypatch, tmp_path, tools):
    def fail(folder):
        raise RuntimeError("Error building extension: no such header")

    built_by(monkeypatch, fail)
    text = reason(monkeypatch)
    (log,) = (tmp_path / "syncheck").glob("*.log")
    assert str(log) in text
    assert "no such header" in log.read_text()


def test_a_cache_that_cannot_be_written_is_said(monkeypatch, tmp_path, tools):
    (tmp_path / "syncheck").write_text("a file in the way")
    assert "the Python recorder is used" in reason(monkeypatch)


def test_the_recorder_that_was_asked_for_must_be_there(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    with pytest.raises(BackendError, match="the native recorder is unavailable"):
        native_build.extension("native", lambda text: None)


def test_a_file_that_is_no_extension_is_said(monkeypatch, tools):
    built_by(monkeypatch, lambda folder: (folder / "syncheck_recorder.so").write_bytes(b"nothing"))
    assert "the native recorder is unavailable" in reason(monkeypatch)


def test_it_is_built_once(monkeypatch, tmp_path, tools):
    built = []

    def make(folder):
        built.append(folder)
        (folder / "syncheck_recorder.so").write_bytes(b"nothing")

    built_by(monkeypatch, make)
    reason(monkeypatch)
    monkeypatch.setattr(native_build, "_known", [])
    reason(monkeypatch)
    assert len(built) == 1
    assert not built[0].exists()


def test_doctor_says_whether_it_is_there(monkeypatch, tools):
    assert "not built yet" in native_build.state()
    built_by(monkeypatch, lambda folder: (folder / "syncheck_recorder.so").write_bytes(b"nothing"))
    reason(monkeypatch)
    assert native_build.state().startswith("built: ")


def test_doctor_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    assert native_build.state().endswith("was not found; the Python recorder is used")


def test_another_torch_is_another_file(monkeypatch):
    native_build._key.cache_clear()
    first = native_build._key()
    native_build._key.cache_clear()
    monkeypatch.setattr(native_build.torch, "__version__", "9.9")
    assert native_build._key() != first
    native_build._key.cache_clear()


@pytest.mark.skipif(sys.platform == "linux", reason="it can be built on Linux")
def test_on_other_systems_there_is_none(monkeypatch):
    assert "cannot be built" in reason(monkeypatch)
