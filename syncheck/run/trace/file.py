"""The file of a trace while it is written: lines, compressed, on the disk soon after they come."""

import os
import zlib
from pathlib import Path
from time import monotonic

from syncheck.system.descriptors import Descriptor

_GZIP = 31
"""Of `zlib.compressobj`: with the header and the trailer of a gzip file."""
_MOST_LINES, _MOST_SECONDS = 256, 0.5
"""What a process that is killed may lose, at most."""


class TraceFile:
    """A file of lines, for this process alone: a forked child shares it, and must not touch it.

    Args:
        path: the file, which is made anew.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file: Descriptor | None = Descriptor.of_file(path, truncate=True)
        self._compressor = zlib.compressobj(wbits=_GZIP)
        self._failure: OSError | None = None
        self._pid = os.getpid()
        self._lines = 0
        self._flushed = monotonic()

    def write(self, line: str) -> None:
        """Add a line. The program under test must not see that this fails: `close` says it."""
        if self._file is None or os.getpid() != self._pid:
            return
        self._put(self._compressor.compress(line.encode() + b"\n"))
        self._lines += 1
        if self._lines >= _MOST_LINES or monotonic() - self._flushed > _MOST_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was held back: a trace that ends after it can be read up to here."""
        self._put(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._lines, self._flushed = 0, monotonic()

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: something could not be written.
        """
        if os.getpid() != self._pid:
            return
        self._put(self._compressor.flush())
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._failure is not None:
            raise self._failure

    def _put(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._failure, self._file = error, None
