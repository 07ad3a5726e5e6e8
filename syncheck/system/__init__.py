"""Interfaces to the operating system: file descriptors, atomic file writes, processes and signals."""
