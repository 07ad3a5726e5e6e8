"""The torch that the user brought."""

import torch

from syncheck.errors import BackendError

OLDEST_TORCH = (2, 8)


def torch_version() -> tuple[int, int]:
    """Return the first two numbers of torch's version, those of the next one where it is built from its sources."""
    major, minor = str(torch.__version__).split("+", maxsplit=1)[0].split(".")[:2]
    return int(major), int(minor)


def check_torch() -> str:
    """Return torch's version.

    Raises:
        BackendError: torch is older than the oldest that is supported.
    """
    version = str(torch.__version__)
    if torch_version() < OLDEST_TORCH:
        raise BackendError(f"torch {version} is too old", "install torch 2.8 or newer: pip install 'torch>=2.8'")
    return version
