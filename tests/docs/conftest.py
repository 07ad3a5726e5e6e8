"""Keeps pytest from collecting the documentation's sample project."""

collect_ignore = ["project"]
