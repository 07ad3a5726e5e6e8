"""Schedules of simulated GPUs: what they are, what a run under one records, and what two such runs differ in."""
