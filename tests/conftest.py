"""What all tests share."""

import pytest

from syncheck import paths


@pytest.fixture(autouse=True)
def _paths_start_at_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the folder that an earlier check in this process began in."""
    monkeypatch.setattr(paths, "_start", [])
