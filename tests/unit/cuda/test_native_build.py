"""The native recorder is built where possible; elsewhere its absence is reported."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from torch.utils import cpp_extension

from syncheck.cuda import native_build
from syncheck.errors import BackendError


@pytest.fixture(autouse=True)
def clear_known_extension(monkeypatch, tmp_path):
    monkeypatch.setattr(native_build, "_known", [])
    monkeypatch.setenv("SYNCHECK_CACHE_DIR", str(tmp_path))


@pytest.fixture
def tools(monkeypatch):
    """Pretend that every tool is installed."""
    monkeypatch.setattr(native_build.shutil, "which", lambda name: f"/usr/bin/{name}")


def built_by(monkeypatch, make):
    """Replace the compiler with `make(folder)`."""
    monkeypatch.setattr(
        cpp_extension, "load", lambda name, sources, *, extra_cflags, build_directory: make(Path(build_directory))
    )


def reason(monkeypatch):
    """Return the last note of a run that uses the recorder if available."""
    notes = []
    monkeypatch.setattr(native_build.torch.cuda, "is_available", lambda: True)
    assert native_build.extension("auto", notes.append) is None
    assert native_build.extension("auto", notes.append) is None
    return notes[-1]


def test_nothing_is_built_for_the_python_recorder_or_without_a_gpu(monkeypatch):
    notes = []
    assert native_build.extension("python", notes.append) is None
    monkeypatch.setattr(native_build.torch.cuda, "is_available", lambda: False)
    assert native_build.extension("auto", notes.append) is None
    assert notes == []


def test_a_missing_compiler_produces_a_one_line_note(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    text = reason(monkeypatch)
    assert "compiler" in text
    assert text.endswith("; the Python recorder is used")


def test_an_older_torch_has_no_native_recorder(monkeypatch):
    monkeypatch.setattr(native_build, "_OLDEST", (99, 0))
    assert "it needs torch 99.0" in reason(monkeypatch)


def test_a_missing_ninja_note_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None if name == "ninja" else name)
    assert "pip install ninja" in reason(monkeypatch)


def test_a_compiler_failure_leaves_a_log(monkeypatch, tmp_path, tools):
    def fail(folder):
        raise RuntimeError("Error building extension: no such header")

    built_by(monkeypatch, fail)
    text = reason(monkeypatch)
    (log,) = (tmp_path / "syncheck").glob("*.log")
    assert str(log) in text
    assert "no such header" in log.read_text()


def test_an_unwritable_cache_falls_back_to_the_python_recorder(monkeypatch, tmp_path, tools):
    (tmp_path / "syncheck").write_text("a file in the way")
    assert "the Python recorder is used" in reason(monkeypatch)


def test_an_explicitly_requested_recorder_must_exist(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    with pytest.raises(BackendError, match="the native recorder is unavailable"):
        native_build.extension("native", lambda text: None)


def test_an_invalid_extension_file_is_reported(monkeypatch, tools):
    built_by(monkeypatch, lambda folder: (folder / "syncheck_recorder.so").write_bytes(b"nothing"))
    assert "the native recorder is unavailable" in reason(monkeypatch)


def test_the_extension_is_built_once(monkeypatch, tmp_path, tools):
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


@pytest.mark.parametrize("path", ["/usr/bin", "", None])
def test_the_programs_path_is_only_extended_during_the_build(monkeypatch, tools, path):
    (monkeypatch.delenv("PATH") if path is None else monkeypatch.setenv("PATH", path))
    seen = []
    monkeypatch.setitem(sys.modules, "ninja", ModuleType("ninja"))
    monkeypatch.setattr(sys.modules["ninja"], "BIN_DIR", "/ninja/bin", raising=False)
    monkeypatch.setattr(native_build, "find_spec", lambda name: name)

    def fail(folder):
        seen.append(os.environ["PATH"])
        raise RuntimeError("no such header")

    built_by(monkeypatch, fail)
    reason(monkeypatch)
    native_build.state()
    assert seen == [f"{path or os.defpath}:/ninja/bin"]
    assert os.environ.get("PATH") == path


def test_doctor_reports_whether_the_recorder_is_built(monkeypatch, tools):
    assert "not built yet" in native_build.state()
    built_by(monkeypatch, lambda folder: (folder / "syncheck_recorder.so").write_bytes(b"nothing"))
    reason(monkeypatch)
    assert native_build.state().startswith("built: ")


def test_doctor_reports_a_missing_tool(monkeypatch):
    monkeypatch.setattr(native_build.shutil, "which", lambda name: None)
    assert native_build.state().endswith("was not found; the Python recorder is used")


def test_another_torch_version_has_another_cache_key(monkeypatch):
    files = (Path(__file__),)
    native_build._key.cache_clear()
    first = native_build._key(files)
    native_build._key.cache_clear()
    monkeypatch.setattr(native_build.torch, "__version__", "9.9")
    assert native_build._key(files) != first
    native_build._key.cache_clear()


@pytest.mark.skipif(sys.platform == "linux", reason="it can be built on Linux")
def test_other_systems_have_no_native_recorder(monkeypatch):
    assert "cannot be built" in reason(monkeypatch)
