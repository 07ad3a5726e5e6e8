"""Actions that run as soon as a module has been imported."""

import importlib.util
import pkgutil
import sys

import pytest

from syncheck.instrument.after_import import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "a_module_of_the_test").mkdir()
    (tmp_path / "a_module_of_the_test" / "__init__.py").write_text("there = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_module_of_the_test"
    sys.modules.pop("a_module_of_the_test", None)


def test_the_action_runs_once_after_the_module_is_complete(module):
    seen = []
    after_import(module, lambda: seen.append(sys.modules[module].there))
    assert importlib.util.find_spec(module) is not None  # as libraries do to check what is installed
    assert seen == []
    importlib.import_module(module)
    importlib.reload(sys.modules[module])
    assert seen == [True]
    after_import(module, lambda: seen.append("at once"))
    assert seen == [True, "at once"]


def test_the_module_looks_the_same_as_without_the_hook(module):
    after_import(module, lambda: None)
    finders = len(sys.meta_path)
    importlib.import_module(module)
    assert len(sys.meta_path) == finders - 1
    assert pkgutil.get_data(module, "__init__.py") == b"there = True\n"
    assert type(sys.modules[module].__loader__) is type(sys.modules[module].__spec__.loader) is type(pytest.__loader__)


def test_the_action_can_be_cancelled(module):
    seen = []
    cancel = after_import(module, lambda: seen.append(1))
    cancel()
    importlib.import_module(module)
    cancel()
    assert seen == []
