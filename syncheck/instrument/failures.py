"""Reasons for an incomplete report: internal errors and limits of the check."""

import os
import traceback

from syncheck.hb.clock import MAX_STREAMS

TOO_MANY_STREAMS = f"more than {MAX_STREAMS:,} streams: races between the remaining ones are not found"
"""Each further stream is treated as the last counted stream of its device, which only adds order."""


def stopped_by(error: BaseException) -> str:
    """Return the reason for an incomplete report after an internal error, with the location of the error."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"syncheck itself failed and stopped checking: {type(error).__name__}: {error}{location}"
