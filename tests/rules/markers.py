"""The location and the expectations of the fixtures; see `syncheck.testing.markers`."""

from pathlib import Path

from syncheck.testing.markers import MAX_DEVICES, Expected, MarkerError, parse, read

__all__ = ["MAX_DEVICES", "ROOT", "Expected", "MarkerError", "fixtures", "parse", "read"]
ROOT = Path(__file__).parents[2] / "fixtures"


def fixtures() -> list[Path]:
    """Return the paths of all fixtures in order."""
    return sorted(ROOT.rglob("*.py"))
