"""Shared parts of all capture backends: call sites, names of objects, operator plans."""
