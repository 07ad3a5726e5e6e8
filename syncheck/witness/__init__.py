"""Schedules of simulated GPUs: their format, the records of runs under them, and the comparison of two runs."""
