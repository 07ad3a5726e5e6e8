"""Cache of lint results."""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from syncheck import serialization
from syncheck.lint import locations
from syncheck.lint.result import Result
from syncheck.system import files
from syncheck.system.files import Stamp
from syncheck.version import __version__

_FORMAT = 9


def _own_time() -> int:
    """Return when the code that produces findings last changed, for developers of syncheck."""
    package = Path(__file__).parents[1]
    folders = (package / name for name in ("lint", "sanitizer", "hb", "rules", "semantics", "source"))
    return max(path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*.py"))


class Cache:
    """Results by path, valid while a file has the same size and modification time, or the same content.

    A result also depends on the files that the file imports from, and on those that were looked up but did not exist.

    A file has many paths ("train.py", "./train.py"), and its findings are shown under the requested one. Therefore,
    cached findings contain no path. The cache holds the findings of all rules, so that selecting other rules needs no
    new run. A cache that is damaged, or that cannot be read or written, is treated as empty.

    Args:
        folder: the folder of the cache; None for no cache.
        key: whatever results depend on besides the files.
    """

    def __init__(self, folder: Path | None, key: str = "") -> None:
        name = hashlib.sha256(f"{_FORMAT} {__version__} {_own_time()} {key}".encode()).hexdigest()[:16]
        self._file = None if folder is None else folder / f"{name}.cache"
        self._known: dict[str, Any] = {}
        self._is_changed = False
        self._stamps: dict[str, Stamp] = {}  # current stamps of files
        self._digests: dict[str, str] = {}
        if self._file is not None:
            with contextlib.suppress(OSError):
                digest, _, known = self._file.read_bytes().partition(b"\n")
                if digest == digest_of(known).encode():
                    self._known = json.loads(known)

    def find(self, path: str, *, is_strict: bool = False) -> Result | None:
        """Return the cached result of a file; None if there is none for its current content.

        Args:
            path: the file.
            is_strict: whether `--strict` applies.
        """
        entry = self._known.get(_key(path, is_strict=is_strict))
        if entry is None:
            return None
        states = {path: [entry["time"], entry["size"], entry["hash"]], **entry["asked"]}
        return _result(entry, path) if all(self._is_same(*state) for state in states.items()) else None

    def keep(self, path: str, stamp: Stamp, digest: str, result: Result, *, is_strict: bool = False) -> None:
        """Store the result for a content, unless a file that it depends on has changed since it was looked up.

        Failures of the moment, such as a lack of memory, are not stored.

        Args:
            path: the file.
            stamp: its stamp before it was read, since it may have changed meanwhile; None if it could not be read.
            digest: the digest of the content that was read.
            result: the result.
            is_strict: whether `--strict` applies.
        """
        if self._file is None or stamp is None or not result.is_reproducible:
            return
        if any(files.stamp(other) != seen for other, seen in result.asked.items()):
            return
        asked = {other: None if seen is None else (*seen, self._digest(other)) for other, seen in result.asked.items()}
        findings = [serialization.of_finding(locations.under(finding, path, "")) for finding in result.findings]
        time, size = stamp
        self._known[_key(path, is_strict=is_strict)] = {
            "time": time, "size": size, "hash": digest, "findings": findings, "unused": result.unused,
            "problem": result.problem, "asked": asked, "left_out": result.left_out,
        }  # fmt: skip
        self._is_changed = True

    def _is_same(self, path: str, state: list[Any] | None) -> bool:
        """Return whether a file's content is unchanged, even if the file was touched."""
        if path not in self._stamps:
            self._stamps[path] = files.stamp(path)
        stamp = self._stamps[path]
        if stamp is None or state is None:
            return stamp is None and state is None
        time, size, digest = state
        return stamp == (time, size) or (stamp[1] == size and self._digest(path) == digest)

    def _digest(self, path: str) -> str:
        """Return the digest of a file's content; "" if the file cannot be read."""
        if path not in self._digests:
            try:
                self._digests[path] = _hash(path)
            except OSError:
                self._digests[path] = ""
        return self._digests[path]

    def save(self) -> None:
        """Write the cache atomically."""
        if self._file is None or not self._is_changed:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            ignore = self._file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            known = json.dumps(self._known).encode()
            files.write(self._file, digest_of(known).encode() + b"\n" + known)


def digest_of(data: bytes) -> str:
    """Return the digest of a file's content."""
    return hashlib.sha256(data).hexdigest()


def _key(path: str, *, is_strict: bool) -> str:
    return f"{os.path.abspath(path)}\0strict" if is_strict else os.path.abspath(path)


def _hash(path: str) -> str:
    return digest_of(files.read(path))


def _result(entry: dict[str, Any], path: str) -> Result:
    findings = (locations.under(serialization.to_finding(data), "", path) for data in entry["findings"])
    unused = tuple((line, comment) for line, comment in entry["unused"])
    return Result(tuple(findings), unused, entry["problem"], left_out=entry["left_out"])
