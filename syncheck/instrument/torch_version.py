"""The installed version of torch."""

import torch

from syncheck.errors import BackendError

OLDEST_TORCH = (2, 8)


def torch_version() -> tuple[int, int]:
    """Return torch's major and minor version; for a source build, those of the upcoming release."""
    major, minor = str(torch.__version__).split("+", maxsplit=1)[0].split(".")[:2]
    return int(major), int(minor)


def check_torch() -> str:
    """Return torch's version.

    Raises:
        BackendError: torch is older than the oldest supported version.
    """
    version = str(torch.__version__)
    if torch_version() < OLDEST_TORCH:
        raise BackendError(f"torch {version} is too old", "install torch 2.8 or newer: pip install 'torch>=2.8'")
    return version
