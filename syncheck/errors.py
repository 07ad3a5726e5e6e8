"""Every exception that syncheck raises on purpose. A finding is data and never one of these."""

import difflib
from collections.abc import Iterable

REINSTALL = "reinstall it: pip install --force-reinstall syncheck"
"""What to do where a part of syncheck is missing."""


class SyncheckError(Exception):
    """Something the user can put right.

    Attributes:
        hint: what to do next, one sentence, or "" where the message says it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # which a traceback ends with, in a program or a notebook


class ConfigError(SyncheckError):
    """A setting, an option or a rule name that does not exist or does not fit."""


class ScriptError(SyncheckError):
    """The program to check cannot be read or compiled."""


class TraceError(SyncheckError):
    """A trace that is damaged, newer than this version, or not a trace."""


class RecordError(SyncheckError):
    """What a process of a job has written is damaged, or of another version, or not there."""


class BackendError(SyncheckError):
    """No backend can check this program here: torch is missing or too old, or no GPU answers."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the hint "did you mean ...?" for a word that is like a known one; "" if none is."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]}?" if close else ""
