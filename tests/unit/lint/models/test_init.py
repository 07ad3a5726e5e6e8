"""All models are registered."""

import pkgutil

from syncheck.lint import models
from syncheck.lint.interp import registry


def test_loading_registers_the_models_of_every_module():
    models.load()
    registered = {*registry._functions.values(), *registry._modules.values(), *registry._packages.values()}
    registered |= set(registry._methods.values())
    # models of libraries described by projects, and of methods
    modules = {model.__module__ for model in registered} | {
        "syncheck.lint.models.library",
        "syncheck.lint.models.hooks",
    }
    expected = {f"{models.__name__}.{module.name}" for module in pkgutil.iter_modules(models.__path__)}
    assert modules == expected


def test_models_can_be_loaded_again():
    models.load()
    before = dict(registry._functions)
    models.load()
    assert registry._functions == before
