"""Each module has tests of its own logic, where they are looked for: `tests/unit` mirrors the package."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lint", "sim", "cuda", "sanitizer", "semantics", "instrument")
STILL_WITHOUT = frozenset(
    """

    """.split()
)
"""Modules whose tests are still to be written: nothing is to be added here."""


def modules():
    """Return the modules, as paths in the package; `__init__.py` only says what a package is for."""
    found = (path for package in PACKAGES for path in (ROOT / "syncheck" / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT / "syncheck").as_posix() for path in found if path.name != "__init__.py")


def mirrored(module):
    """Return where the tests of a module are."""
    path = ROOT / "tests" / "unit" / module
    return path.with_name(f"test_{path.name}")


@pytest.mark.parametrize("module", [module for module in modules() if module not in STILL_WITHOUT])
def test_a_module_has_mirrored_its_own(module):
    assert mirrored(module).exists(), f"write {mirrored(module).relative_to(ROOT)}"
    assert "def test_" in mirrored(module).read_text()


def test_a_module_that_has_tests_is_not_listed_as_without():
    without = {module for module in modules() if not mirrored(module).exists()}
    assert STILL_WITHOUT - without == set()
