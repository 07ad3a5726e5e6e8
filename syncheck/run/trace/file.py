"""A trace file being written: compressed lines, flushed to disk soon after they are added."""

import os
import zlib
from pathlib import Path
from time import monotonic

from syncheck.system.descriptors import Descriptor

_GZIP = 31
"""`wbits` of `zlib.compressobj` for the header and trailer of a gzip file."""
_MAX_LINES, _MAX_SECONDS = 256, 0.5
"""Maximum data that a killed process may lose."""


class TraceFile:
    """A file of lines and its successors, for this process only: a forked child must not write to it.

    Attributes:
        n_bytes: compressed size of the lines in the current file, including those that could not be written.

    Args:
        path: the file, which is overwritten.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._failure: OSError | None = None
        self._pid = os.getpid()
        self._file: Descriptor | None = None
        self._begin(path)

    def _begin(self, path: Path) -> None:
        self.n_bytes = 0
        self._lines = 0
        self._flushed = monotonic()
        self._compressor = zlib.compressobj(wbits=_GZIP)
        self._file = Descriptor.of_file(path, truncate=True)

    def write(self, line: str) -> None:
        """Add a line. Errors must not reach the program under test; `close` raises them."""
        if os.getpid() != self._pid:
            return
        self._put(self._compressor.compress(line.encode() + b"\n"))
        self._lines += 1
        if self._lines >= _MAX_LINES or monotonic() - self._flushed > _MAX_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered data, so that a trace truncated later can be read up to here."""
        self._put(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._lines, self._flushed = 0, monotonic()

    def follow(self, path: Path) -> None:
        """Finish the file and start another one, even if the previous one could not be written."""
        if os.getpid() != self._pid:
            return
        self._finish()
        try:
            self._begin(path)
        except OSError as error:
            self._failure = self._failure or error

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: something could not be written.
        """
        if os.getpid() != self._pid:
            return
        self._finish()
        if self._failure is not None:
            raise self._failure

    def _finish(self) -> None:
        self._put(self._compressor.flush())
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._failure = self._failure or error

    def _put(self, data: bytes) -> None:
        self.n_bytes += len(data)
        if self._file is None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._failure, self._file = self._failure or error, None
