"""syncheck: a GPU synchronization checker for PyTorch programs."""

from syncheck.version import __version__

__all__ = [
    "BackendError",
    "ConfigError",
    "RecordError",
    "ScriptError",
    "SyncheckError",
    "TraceError",
    "__version__",
    "allow_sync",
    "check",
    "ignore",
    "watch",
]

TYPE_CHECKING = False  # type checkers assume True; importing typing would cost more than everything else here
if TYPE_CHECKING:
    from syncheck.api import check
    from syncheck.errors import BackendError, ConfigError, RecordError, ScriptError, SyncheckError, TraceError
    from syncheck.filters.ignore_block import allow_sync, ignore
    from syncheck.run.service import watch

_MODULES = {
    "BackendError": "syncheck.errors",
    "ConfigError": "syncheck.errors",
    "RecordError": "syncheck.errors",
    "ScriptError": "syncheck.errors",
    "SyncheckError": "syncheck.errors",
    "TraceError": "syncheck.errors",
    "allow_sync": "syncheck.filters.ignore_block",
    "check": "syncheck.api",
    "ignore": "syncheck.filters.ignore_block",
    "load_ipython_extension": "syncheck.notebook",
    "watch": "syncheck.run.service",
}


def __getattr__(name: str) -> object:
    """Import the public API lazily, so that `import syncheck` costs nothing."""
    if name in _MODULES:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'syncheck' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, for completion in editors and notebooks."""
    return sorted(__all__)
