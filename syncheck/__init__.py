"""syncheck: is this PyTorch program's GPU synchronization correct?"""

__version__ = "0.1.0"

__all__ = ["__version__"]
