"""Why a report is incomplete: errors in syncheck itself, and limits of what is checked."""

import os
import traceback

from syncheck.hb.clock import MOST_STREAMS

TOO_MANY_STREAMS = f"there are more than {MOST_STREAMS:,} streams: races between the others are not found"
"""Each of the others is taken for the last stream of its device that was counted, which only adds order."""


def stopped_by(error: BaseException) -> str:
    """Return the reason why a report is incomplete: an error in syncheck's own code, with the place where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"syncheck itself failed, and stopped checking: {type(error).__name__}: {error}{place}"
