"""Public API for extending syncheck: custom rules, and descriptions of libraries.

See "Write a rule" and "Describe a library" in the documentation.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncheck.findings import Applicability, Edit, EditKind, Fix
    from syncheck.lint.gpu_state import GpuState, StreamState, TensorState
    from syncheck.lint.rules.visitor import LintRule
    from syncheck.rules.model import Rule, Severity
    from syncheck.semantics.library import Effect, describe

__all__ = [
    "Applicability",
    "Edit",
    "EditKind",
    "Effect",
    "Fix",
    "GpuState",
    "LintRule",
    "Rule",
    "Severity",
    "StreamState",
    "TensorState",
    "describe",
]
_MODULES = {
    "Applicability": "syncheck.findings",
    "Edit": "syncheck.findings",
    "EditKind": "syncheck.findings",
    "Fix": "syncheck.findings",
    "GpuState": "syncheck.lint.gpu_state",
    "StreamState": "syncheck.lint.gpu_state",
    "TensorState": "syncheck.lint.gpu_state",
    "LintRule": "syncheck.lint.rules.visitor",
    "Rule": "syncheck.rules.model",
    "Severity": "syncheck.rules.model",
    "Effect": "syncheck.semantics.library",
    "describe": "syncheck.semantics.library",
}


def __getattr__(name: str) -> object:
    """Import a name at its first use, so that a run that only needs `describe` does not load the linter."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'syncheck.extend' has no attribute {name!r}")
