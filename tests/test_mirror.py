"""`tests/unit` mirrors the package: each module has a test file of its own at the corresponding path."""

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
"""Modules tested through a backend or an analyzed program, whose tests do not import them. Add no modules here."""


def modules():
    """Return the modules as paths relative to the package, except `__init__.py`, which has no code."""
    found = (path for package in PACKAGES for path in (ROOT / "syncheck" / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT / "syncheck").as_posix() for path in found if path.name != "__init__.py")


def mirrored(module):
    """Return the path of a module's tests."""
    path = ROOT / "tests" / "unit" / module
    return path.with_name(f"test_{path.name}")


def is_imported(module):
    """Return whether the tests of a module import it or a name from it."""
    name = ".".join(("syncheck", *PurePath(module).with_suffix("").parts))
    imported = set()
    for node in ast.walk(ast.parse(mirrored(module).read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return name in imported


@pytest.mark.parametrize("module", modules())
def test_each_module_has_a_test_file(module):
    assert mirrored(module).exists(), f"write {mirrored(module).relative_to(ROOT)}"
    assert "def test_" in mirrored(module).read_text()


@pytest.mark.parametrize("module", [module for module in modules() if module not in THROUGH_A_WHOLE])
def test_mirrored_tests_import_their_module(module):
    assert is_imported(module), f"{mirrored(module).relative_to(ROOT)} tests something else"


@pytest.mark.parametrize("module", sorted(THROUGH_A_WHOLE))
def test_a_module_that_its_tests_import_is_not_listed_as_an_exception(module):
    assert not is_imported(module)
