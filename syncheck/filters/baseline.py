"""The baseline: a file of known findings, which are not shown and do not fail a build."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from syncheck.errors import ConfigError
from syncheck.findings import Finding
from syncheck.paths import real_path, relative_path
from syncheck.system import files

_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """The properties of a known finding that do not change when lines move.

    Attributes:
        path: path relative to the folder of the baseline, with "/".
        source: the source line, stripped.
    """

    path: str
    rule: str
    function: str
    source: str
    half: str

    @property
    def fingerprint(self) -> str:
        """16 hex digits of a hash of all fields."""
        return hashlib.sha256("\0".join(asdict(self).values()).encode("utf-8", "backslashreplace")).hexdigest()[:16]


@dataclass(slots=True)
class Baseline:
    """Known findings.

    Attributes:
        path: the file.
        known: number of occurrences of each known finding.
        strict: known findings that a check without `--strict` may not find.
    """

    path: Path
    known: Counter[Entry] = field(default_factory=Counter)
    strict: set[Entry] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> "Baseline":
        """Read a baseline.

        Raises:
            ConfigError: the file does not exist or is not a baseline.
        """
        hint = "write it with --write-baseline"
        try:
            document = json.loads(files.read(path))
        except FileNotFoundError as error:
            raise ConfigError(f"no such baseline: {path}", hint) from error
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot read the baseline {path}: {reason}", hint) from error
        try:
            if document["version"] != _VERSION:
                raise ConfigError(f"the baseline {path} has version {document['version']!r}", hint)
            known: Counter[Entry] = Counter()
            for entry in document["findings"]:
                known[_entry(entry)] += int(entry["count"])
            return cls(path, known, {_entry(entry) for entry in document["findings"] if entry.get("strict")})
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{path} is not a baseline: {type(error).__name__}: {error}", hint) from error

    def new(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that are not known: of equal findings, those in excess of the known number."""
        left = self.known.copy()
        found: list[Finding] = []
        for finding in findings:
            entry = self.entry_of(finding)
            if left[entry] > 0:
                left[entry] -= 1
            else:
                found.append(finding)
        return tuple(found)

    def stale(self, findings: Iterable[Finding]) -> Counter[Entry]:
        """Return the known findings that were not found, with their numbers."""
        return self.known - Counter(map(self.entry_of, findings))

    def contains(self, finding: Finding) -> bool:
        """Return whether a finding is known, regardless of how often it occurs."""
        return self.known[self.entry_of(finding)] > 0

    def replace(
        self,
        findings: Iterable[Finding],
        is_checked: Callable[[Entry], bool],
        is_strict: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Replace the known findings within the checked part by these findings. Others are kept, or found again.

        Args:
            findings: the findings.
            is_checked: returns whether a known finding is within the checked part.
            is_strict: returns whether `--strict` applied to a file.
        """
        findings = tuple(findings)
        self.known = Counter({entry: n for entry, n in self.known.items() if not is_checked(entry)})
        self.known |= Counter(map(self.entry_of, findings))
        self.strict -= set(map(self.entry_of, findings))
        self.strict |= {self.entry_of(f) for f in findings if f.assumptions and is_strict(f.location.frame.path)}

    def write(self) -> None:
        """Write the file, sorted, so that changes to it can be reviewed.

        Raises:
            ConfigError: it cannot be written.
        """
        entries = [
            {
                **asdict(entry),
                "fingerprint": entry.fingerprint,
                "count": number,
                **({"strict": True} if entry in self.strict else {}),
            }
            for entry, number in sorted(self.known.items())
        ]
        text = json.dumps({"version": _VERSION, "findings": entries}, indent=2) + "\n"
        try:
            files.write(self.path, text.encode())
        except OSError as error:
            raise ConfigError(f"cannot write the baseline {self.path}: {error.strerror or error}") from error

    def entry_of(self, finding: Finding) -> Entry:
        """Return the entry for a finding."""
        frame = finding.location.frame
        path = self.relative(frame.path) if frame.is_user else frame.path
        return Entry(path, finding.rule.code, frame.function, frame.source.strip(), finding.source)

    def file_of(self, entry: Entry) -> str:
        """Return the file of an entry; for a notebook cell, the notebook."""
        return os.path.join(self.path.parent, entry.path.partition(":cell ")[0])

    def relative(self, path: str) -> str:
        """Convert a shown path to the form used in entries."""
        return relative_path(real_path(path), real_path(self.path.parent))


def _entry(known: dict[str, Any]) -> Entry:
    return Entry(*(str(known[name]) for name in ("path", "rule", "function", "source", "half")))
