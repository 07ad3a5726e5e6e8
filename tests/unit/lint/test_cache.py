"""Cached results of earlier lint runs."""

import os

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.cache import Cache, digest_of
from syncheck.lint.result import Result
from syncheck.rules import redundant_wait
from syncheck.system import files

FINDING = Finding(redundant_wait.RULE, Location(Frame("a.py", 3)), "a wait", help="remove it")
RESULT = Result((FINDING,), ((4, "# syncheck: ignore[SYN101]"),), "")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\n")
    return path


def kept(folder, path, result=RESULT, key=""):
    cache = Cache(folder, key)
    cache.keep(str(path), files.stamp(path), digest_of(path.read_bytes()), result)
    cache.save()


def test_a_result_is_known_to_the_next_run(tmp_path, file):
    kept(tmp_path / "cache", file)
    found = Cache(tmp_path / "cache").find(str(file))
    assert found.findings == (FINDING,)
    assert found.unused == RESULT.unused
    assert (tmp_path / "cache" / ".gitignore").read_text() == "*\n"


def test_changed_content_is_not_known(tmp_path, file):
    kept(tmp_path / "cache", file)
    file.write_bytes(b"x = 2\n")
    os.utime(file, ns=(1, 1))
    assert Cache(tmp_path / "cache").find(str(file)) is None
    file.write_bytes(b"longer = 2\n")
    assert Cache(tmp_path / "cache").find(str(file)) is None


def test_a_touched_but_unchanged_file_is_known(tmp_path, file):
    kept(tmp_path / "cache", file)
    os.utime(file, ns=(1, 1))
    assert Cache(tmp_path / "cache").find(str(file)).findings == (FINDING,)


def test_results_depend_on_the_key(tmp_path, file):
    kept(tmp_path / "cache", file, key="a")
    assert Cache(tmp_path / "cache", "b").find(str(file)) is None
    assert Cache(tmp_path / "cache", "a").find(str(file)) is not None


def test_a_deleted_file_is_not_known(tmp_path, file):
    kept(tmp_path / "cache", file)
    file.unlink()
    assert Cache(tmp_path / "cache").find(str(file)) is None


@pytest.mark.parametrize("text", ["", "no json", "[1]", '{"%s": {"time": 1}}', '{"%s": 3}'])
def test_a_broken_cache_is_ignored(tmp_path, file, text):
    kept(tmp_path / "cache", file)
    (stored,) = (tmp_path / "cache").glob("*.cache")
    stored.write_text(text.replace("%s", str(file)))
    assert Cache(tmp_path / "cache").find(str(file)) is None


def test_without_a_folder_nothing_is_stored(tmp_path, file):
    kept(None, file)
    assert Cache(None).find(str(file)) is None


def test_an_unreadable_file_has_no_result(tmp_path, file):
    cache = Cache(tmp_path / "cache")
    cache.keep(str(tmp_path / "gone.py"), None, "", RESULT)
    cache.save()
    assert not (tmp_path / "cache").exists()


def test_the_result_of_content_that_changed_while_it_was_checked_is_not_used(tmp_path, file):
    cache, stamp, digest = Cache(tmp_path / "cache"), files.stamp(file), digest_of(file.read_bytes())
    file.write_bytes(b"longer = 2\n")
    cache.keep(str(file), stamp, digest, RESULT)
    cache.save()
    assert Cache(tmp_path / "cache").find(str(file)) is None


def test_an_unwritable_folder_is_not_an_error(tmp_path, file):
    (tmp_path / "cache").write_text("a file")
    kept(tmp_path / "cache", file)


# -- files that a result depends on


def test_the_result_is_not_stored_if_another_file_has_changed_since_it_was_looked_up(tmp_path, file):
    other = tmp_path / "other.py"
    other.write_bytes(b"y = 1\n")
    result = Result((FINDING,), asked={str(other): files.stamp(other)})
    other.write_bytes(b"y = 2\n")
    os.utime(other, ns=(1, 1))
    kept(tmp_path / "cache", file, result)
    assert Cache(tmp_path / "cache").find(str(file)) is None


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.py"
    path.write_bytes(b"y = 1\n")
    return path


def known_with(tmp_path, file, *others):
    """Return a function that checks whether a result that depends on other files is still known."""
    kept(tmp_path / "cache", file, Result((FINDING,), asked={str(path): files.stamp(path) for path in others}))
    return lambda: Cache(tmp_path / "cache").find(str(file)) is not None


def test_a_result_is_valid_as_long_as_its_dependencies(tmp_path, file, other):
    is_known = known_with(tmp_path, file, other)
    assert is_known()
    other.write_bytes(b"y = 22\n")
    assert not is_known()
    other.unlink()
    assert not is_known()


def test_a_touched_but_unchanged_dependency_keeps_the_result(tmp_path, file, other):
    is_known = known_with(tmp_path, file, other)
    os.utime(other, ns=(1, 1))
    assert is_known()
    other.write_bytes(b"y = 2\n")
    os.utime(other, ns=(2, 2))
    assert not is_known()


def test_a_missing_dependency_that_appears_invalidates_the_result(tmp_path, file):
    missing = tmp_path / "missing.py"
    is_known = known_with(tmp_path, file, missing)
    assert is_known()
    missing.touch()
    assert not is_known()
