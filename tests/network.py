"""Checks for network access."""

import subprocess
import sys
from functools import cache

NEEDED = ("hatchling", "libcst", "typer")
"""Packages that the tests that need the network download."""


@cache
def has_package_index():
    """Return whether pip can download packages with its configured index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--no-deps", "--no-cache-dir", "--retries", "1", "--timeout", "10", *NEEDED]
    return subprocess.run(command, capture_output=True, check=False, timeout=200).returncode == 0


@cache
def has_npm_registry():
    """Return whether npm can reach its configured registry."""
    command = ["npm", "ping", "--fetch-retries", "1", "--fetch-timeout", "10000"]
    return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0
