"""Information on this machine and its settings."""

import importlib.util
import json
import os
import runpy
import sys

from syncheck.config.kinds import Size
from syncheck.config.settings import origins
from syncheck.errors import BackendError, ConfigError
from syncheck.version import __version__


def doctor() -> list[tuple[str, str]]:
    """Return (item, value) pairs that describe what can be checked on this machine."""
    rows = [("syncheck", __version__), ("python", sys.version.split()[0])]
    try:
        if importlib.util.find_spec("torch") is None:
            missing = "missing: pip install 'torch>=2.8'; without it no program can be run"
            return [*rows, ("torch", missing)]
        from syncheck.run import backends

        rows.extend(backends.doctor())
    except BackendError as error:
        rows.append(("torch", f"{error}; {error.hint}"))
    rows.append(("working directory", os.getcwd()))
    return rows


def torch_summary() -> str:
    """Return torch's version, its CUDA version and the backend of `auto`, importing torch only if necessary."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "no torch; lint, replay and rules work without it"
    found = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
    cuda, rocm = found.get("cuda"), found.get("hip")
    backend = "sim"
    if cuda is not None or rocm is not None:
        from syncheck.run import backends

        backend = dict(backends.doctor())["backend chosen by auto"]
    built_for = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else "no CUDA"
    return f"torch {found['__version__']}, {built_for}, backend {backend}"


def effective_settings(path: str) -> list[tuple[str, str, str]]:
    """Return each setting with its value for a file or folder, in TOML syntax, and the origin of the value.

    Raises:
        ConfigError: the path does not exist, or its settings are invalid.
    """
    if not os.path.exists(path):
        raise ConfigError(f"no such file or folder: {path!r}", "name a file or folder that exists")
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return [(setting.key, _as_toml(value), origin) for setting, value, origin in origins(folder)]


def _as_toml(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_as_toml(names)}" for key, names in value) + " }"
    if isinstance(value, Size):
        value = str(value)
    return "" if value is None else json.dumps(value, default=str)
