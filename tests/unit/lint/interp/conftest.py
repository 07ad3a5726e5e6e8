"""Fixtures for the linter's interpreter."""

import pytest

from tests.unit.lint.program import new_program


@pytest.fixture
def program():
    return new_program()


@pytest.fixture
def machine(program):
    return program.machine
