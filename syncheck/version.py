"""The version of syncheck, read by the build."""

__version__ = "0.1.0"
