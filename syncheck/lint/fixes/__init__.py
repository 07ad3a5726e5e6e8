"""Fixes of source files, and comments added to them."""
