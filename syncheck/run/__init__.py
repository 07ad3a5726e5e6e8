"""Runs of a program: processes, backend, trace and report."""
