"""What all tests share."""

import pytest

from syncheck import paths
from tests import network


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs the network where there is none."""
    if item.get_closest_marker("network") and not network.has_package_index():
        pytest.skip("the package index cannot be reached")


@pytest.fixture(autouse=True)
def _paths_start_at_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the folder that an earlier check in this process began in."""
    monkeypatch.setattr(paths, "_start", [])
