"""What all tests share."""

import re
from collections.abc import Generator
from importlib.util import find_spec

import pytest

from syncheck import paths
from tests import network

DEV = frozenset("hypothesis jsonschema junitparser lsprotocol mkdocs numpy pygls sarif_pydantic yaml".split())
"""The modules of the group `dev` that tests import: without them, those tests are skipped."""
LONG = (
    "tests/rules/test_fixtures.py", "tests/rules/test_repairs.py", "tests/packaging/test_packaging.py", "tests/plugin/",
    "tests/agreement/", "tests/lint/test_pre_commit.py", "tests/ranks/", "tests/rules/test_xpu.py",
)  # fmt: skip
"""The files whose tests take longest: they come first, so that no process has one of them left at the end."""
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
if find_spec("hypothesis"):
    from hypothesis import settings

    # The same examples on each run: a change is judged by what it changes. `--hypothesis-profile default` tries others.
    settings.register_profile("gate", derandomize=True, deadline=None, database=None)
    settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the settings of plugins that are not installed."""
    if find_spec("pytest_timeout") is None:
        parser.addini("timeout", "pytest-timeout's")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file of tests that needs what only the group `dev` installs."""
    report = yield
    missing = _MISSING.search(str(report.longrepr)) if report.failed else None
    if missing is not None and missing[1] in DEV:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing[1]} is not installed")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs the network where there is none."""
    if item.get_closest_marker("network") and not network.has_package_index():
        pytest.skip("the package index cannot be reached")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test in which torch needs numpy, where that is not installed."""
    del item
    try:
        yield
    except (RuntimeError, ModuleNotFoundError) as error:
        if find_spec("numpy") is not None or "numpy" not in str(error).lower():
            raise
        pytest.skip("numpy is not installed")


@pytest.fixture(autouse=True)
def _paths_start_at_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the folder that an earlier check in this process began in."""
    monkeypatch.setattr(paths, "_start", [])
