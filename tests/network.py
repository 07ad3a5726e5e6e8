"""Whether there is a network."""

import subprocess
import sys
from functools import cache

NEEDED = ("hatchling", "libcst", "typer")
"""Packages that the tests with a network download."""


@cache
def has_package_index():
    """Return whether pip can download, with whatever index, proxy and certificates it is configured for."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--no-deps", "--no-cache-dir", "--retries", "1", "--timeout", "10", *NEEDED]
    return subprocess.run(command, capture_output=True, check=False, timeout=200).returncode == 0


@cache
def has_npm_registry():
    """Return whether npm reaches the registry that it is configured for."""
    command = ["npm", "ping", "--fetch-retries", "1", "--fetch-timeout", "10000"]
    return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0
