"""Settings that have no effect because their table or their environment variable is misspelled."""

import difflib
import os
import re
from typing import Any, TypeAlias

from syncheck.config.options import SETTINGS
from syncheck.config.settings import Layer, absolute_folder, cached_until_forget, document_in, document_of, tools_of
from syncheck.errors import nearest

Notice: TypeAlias = tuple[str, str]
"""What has no effect, and a hint."""

INTERNAL = {"SYNCHECK_CACHE_DIR", "SYNCHECK_PARTS", "SYNCHECK_RERUN"}
"""Environment variables that are not settings."""

_TABLE = "syncheck"
_LIKENESS = 0.85
"""Least similarity of a misspelled table name; tables of other tools, such as [tool.check], are below it."""


def variables() -> list[Notice]:
    """Return the environment variables that look like settings but are not."""
    used = {setting.variable: setting for setting in SETTINGS}
    found: list[Notice] = []
    for name in sorted(os.environ):
        if not name.startswith("SYNCHECK_") or not os.environ[name] or name in INTERNAL:
            continue
        setting = used.get(name)
        if setting is None:
            known = [s.variable for s in SETTINGS if s.is_in_file and s.kind.is_text]
            hint = nearest(name, known, cutoff=_LIKENESS) or "`syncheck config` lists the settings"
            found.append((f"unknown environment variable {name}", hint))
        elif not setting.is_in_file:
            option = setting.options[0].partition("/")[0]
            found.append((f"environment variable {name} has no effect", f"use the option {option}"))
    return found


def tables(folder: str, layer: Layer = ()) -> list[Notice]:
    """Return the misspelled tables in the files that are searched for the settings of a folder.

    Args:
        folder: the folder.
        layer: the settings from the command line, of which `config` and `isolated` are used.

    Raises:
        ConfigError: a file cannot be read.
    """
    given = dict(layer)
    if given.get("isolated"):
        return []
    if given.get("config") is not None:
        path = str(given["config"])
        return _misspelled(document_of(path), path) if path.endswith("pyproject.toml") else []
    return list(_misspelled_above(absolute_folder(folder)))


@cached_until_forget
def _misspelled_above(folder: str) -> tuple[Notice, ...]:
    """Return the misspelled tables in the files of a folder and those above it, up to one with the right table."""
    document = document_in(folder)
    if _TABLE in tools_of(document):
        return ()
    found = _misspelled(document, os.path.join(folder, "pyproject.toml"))
    above = os.path.dirname(folder)
    return tuple(found) if above == folder else (*found, *_misspelled_above(above))


def _misspelled(document: dict[str, Any], path: str) -> list[Notice]:
    if _TABLE in tools_of(document):
        return []
    names = [f"tool.{name}" for name in tools_of(document) if _resembles(name)]
    names += [name for name, value in document.items() if isinstance(value, dict) and _resembles(name)]
    return [(f"[{name}] in {path} has no effect", f"did you mean [tool.{_TABLE}]?") for name in names]


def _resembles(name: str) -> bool:
    plain = re.sub(r"[-_. ]", "", name.lower())
    return difflib.SequenceMatcher(None, plain, _TABLE).ratio() >= _LIKENESS
