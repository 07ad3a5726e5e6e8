"""All exceptions that syncheck raises deliberately. Findings are data, never exceptions."""

import difflib
from collections.abc import Iterable

REINSTALL = "reinstall it: pip install --force-reinstall syncheck"
"""Hint for an installation with missing files."""


class SyncheckError(Exception):
    """Error that the user can fix.

    Attributes:
        hint: what to do next, in one sentence; "" if the message already says it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # shown at the end of a traceback, in a program or a notebook


class ConfigError(SyncheckError):
    """A setting, an option or a rule name does not exist or is invalid."""


class ScriptError(SyncheckError):
    """The program to check cannot be read or compiled."""


class TraceError(SyncheckError):
    """A file is not a trace, is damaged, or was written by a newer version."""


class RecordError(SyncheckError):
    """The record of a process of a job is missing, damaged, or of another version."""


class BackendError(SyncheckError):
    """No backend can check this program here: torch is missing or too old, or no GPU is usable."""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the hint "did you mean ...?" for a word that resembles a known one; "" if none does.

    Args:
        name: the word.
        known: the words that exist.
        cutoff: the least similarity, from 0 to 1.
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]}?" if close else ""
