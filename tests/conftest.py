"""Configuration shared by all tests."""

import re
import signal
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from syncheck import paths
from tests import network, slow
from tests.permanent import exempt_living_objects
from tests.torch_samples import import_operator_table

DEV = frozenset("hypothesis jsonschema junitparser lsprotocol mkdocs numpy pygls ruff sarif_pydantic yaml".split())
"""Modules of the group `dev` that tests import. Without them, those tests are skipped."""
LONG = (
    "tests/rules/test_fixtures.py", "tests/rules/test_repairs.py", "tests/packaging/test_packaging.py", "tests/plugin/",
    "tests/agreement/", "tests/lint/test_pre_commit.py", "tests/ranks/", "tests/rules/test_advice.py",
    "tests/rules/test_xpu.py", "tests/unit/cuda/test_recorders_agree.py",
    "tests/unit/sim/test_results.py", "tests/docs/test_docs.py",
)  # fmt: skip
"""The slowest test files. They run first, so that no worker is left with one at the end."""
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # by a shell that runs the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
# By default, torch gives many of its warnings once per process: only the first test that causes one would see it.
torch.set_warn_always(True)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
if find_spec("hypothesis"):
    from hypothesis import settings
    from hypothesis.internal.conjecture import providers

    # The same examples in each run: results depend only on the code. `--hypothesis-profile default` tries others.
    # Hypothesis would also draw constants of those of our modules that happen to be loaded, and parse them all first.
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = providers.Constants
    settings.register_profile("gate", derandomize=True, deadline=None, database=None)
    settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the settings of plugins that are not installed."""
    if find_spec("pytest_timeout") is None:
        parser.addini("timeout", "pytest-timeout's")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a test file that needs a module that only the group `dev` installs."""
    report = yield
    missing = _MISSING.search(str(report.longrepr)) if report.failed else None
    if missing is not None and missing[1] in DEV:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing[1]} is not installed")
    return report


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are known to be slow, and run the slowest files first."""
    for item in items:
        if item.nodeid in slow.listed():
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection_finish() -> None:
    """Exempt the collected tests and modules from garbage collection, which tests and the product often start."""
    exempt_living_objects()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs the network if there is none."""
    if item.get_closest_marker("network") and not network.has_package_index():
        pytest.skip("the package index cannot be reached")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test in which torch needs numpy if numpy is not installed."""
    del item
    try:
        yield
    except (RuntimeError, ModuleNotFoundError) as error:
        if find_spec("numpy") is not None or "numpy" not in str(error).lower():
            raise
        pytest.skip("numpy is not installed")


@pytest.fixture(scope="session")
def operator_table() -> Any:
    """Return torch's operator table, which is imported before a fixture of a narrower scope simulates GPUs."""
    return import_operator_table()


@pytest.fixture(autouse=True, scope="module")
def _exempt_caches() -> None:
    """Exempt what the tests of earlier files have left in caches."""
    exempt_living_objects()


@pytest.fixture(autouse=True)
def _reset_start_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the folder in which an earlier check in this process started."""
    monkeypatch.setattr(paths, "_start", [])
