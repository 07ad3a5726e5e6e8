"""Rules that the sanitizer can report."""

import pkgutil
from importlib import import_module

import pytest

from syncheck import sanitizer
from syncheck.rules.catalogue import CATALOGUE
from syncheck.sanitizer.reported import IN_RUNS_ONLY, RULES

WITH_RULES = [
    module.name
    for module in pkgutil.iter_modules(sanitizer.__path__)
    if module.name != "reported" and hasattr(import_module(f"syncheck.sanitizer.{module.name}"), "RULES")
]


@pytest.mark.parametrize("name", WITH_RULES)
def test_the_rules_of_each_module_are_reported(name):
    module = import_module(f"syncheck.sanitizer.{name}")
    assert set(module.RULES) <= set(RULES)


def test_only_rules_of_the_catalogue_are_reported():
    assert set(RULES) <= set(CATALOGUE)


def test_rules_that_need_iterations_are_run_only():
    assert {rule.code for rule in IN_RUNS_ONLY} == {"SYN801", "SYN803", "SYN804", "SYN806", "SYN807", "SYN808"}
