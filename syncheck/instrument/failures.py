"""What a report says of an error in syncheck itself."""

import os
import traceback


def stopped_by(error: BaseException) -> str:
    """Return the reason why a report is incomplete: an error in syncheck's own code, with the place where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"syncheck itself failed, and stopped checking: {type(error).__name__}: {error}{place}"
