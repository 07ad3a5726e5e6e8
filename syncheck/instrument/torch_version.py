"""The torch that the user brought."""

import torch

from syncheck.errors import BackendError

OLDEST_TORCH = (2, 8)


def check_torch() -> str:
    """Return torch's version.

    Raises:
        BackendError: torch is older than the oldest that is supported.
    """
    version = str(torch.__version__)
    numbers = tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".")[:2])
    if numbers < OLDEST_TORCH:
        raise BackendError(f"torch {version} is too old", "install torch 2.8 or newer: pip install 'torch>=2.8'")
    return version
