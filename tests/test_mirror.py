"""Each module has tests of its own logic, where they are looked for: `tests/unit` mirrors the package."""

import ast
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("lint", "sim", "cuda", "sanitizer", "semantics", "instrument")
THROUGH_A_WHOLE = frozenset(
    """
    cuda/backend.py cuda/events.py cuda/launches.py cuda/mode.py cuda/operator_errors.py cuda/thread_contexts.py
    cuda/timing.py lint/interp/binding.py lint/interp/calls.py lint/interp/collectives.py lint/interp/expressions.py
    lint/interp/interpreter.py lint/interp/iteration.py lint/interp/naming.py lint/interp/operators.py
    lint/interp/transfers.py lint/models/containers.py lint/models/distributed.py lint/models/graphs.py
    lint/models/layers.py lint/models/objects.py lint/models/stdlib.py lint/models/streams.py lint/models/tensors.py
    lint/models/threads.py sanitizer/races.py sanitizer/thread_races.py sim/autocast.py sim/autograd.py sim/backend.py
    sim/copies.py sim/creation.py sim/cuda_memory.py sim/device_type.py sim/dispatch.py sim/distributed.py
    sim/events.py sim/futures.py sim/graphs.py sim/host_reads.py sim/launches.py sim/legacy_types.py sim/mode.py
    sim/parallel.py sim/placement.py sim/storages.py sim/streams.py sim/unchecked.py
    """.split()
)
"""Modules that their tests reach through a backend or a followed program, without a name of theirs: nothing is to be
added here."""


def modules():
    """Return the modules, as paths in the package; `__init__.py` only says what a package is for."""
    found = (path for package in PACKAGES for path in (ROOT / "syncheck" / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT / "syncheck").as_posix() for path in found if path.name != "__init__.py")


def mirrored(module):
    """Return where the tests of a module are."""
    path = ROOT / "tests" / "unit" / module
    return path.with_name(f"test_{path.name}")


def is_imported(module):
    """Return whether the tests of a module import it, or a name from it."""
    name = ".".join(("syncheck", *PurePath(module).with_suffix("").parts))
    imported = set()
    for node in ast.walk(ast.parse(mirrored(module).read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return name in imported


@pytest.mark.parametrize("module", modules())
def test_a_module_has_mirrored_its_own(module):
    assert mirrored(module).exists(), f"write {mirrored(module).relative_to(ROOT)}"
    assert "def test_" in mirrored(module).read_text()


@pytest.mark.parametrize("module", [module for module in modules() if module not in THROUGH_A_WHOLE])
def test_mirrored_tests_import_their_module(module):
    assert is_imported(module), f"{mirrored(module).relative_to(ROOT)} tests something else"


@pytest.mark.parametrize("module", sorted(THROUGH_A_WHOLE))
def test_a_module_that_its_tests_import_is_not_listed_as_one_that_they_reach_otherwise(module):
    assert not is_imported(module)
