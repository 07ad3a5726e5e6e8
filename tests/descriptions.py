"""Descriptions of libraries that last for one test."""

from functools import cache

import pytest

from syncheck.lint import models, prefilter
from syncheck.lint.interp import registry
from syncheck.semantics import library


def isolate_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without descriptions of libraries, and remove those that the test registers when it ends."""
    models.load()  # the linter's own models are loaded once for all tests, and must stay
    monkeypatch.setattr(library, "_described", {})
    monkeypatch.setattr(prefilter, "_of_libraries", set())
    monkeypatch.setattr(registry, "_functions", dict(registry._functions))
    monkeypatch.setattr(registry, "_models_of", cache(registry._models_of.__wrapped__))
