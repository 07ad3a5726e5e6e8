"""syncheck: is this PyTorch program's GPU synchronization correct?"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("syncheck")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
