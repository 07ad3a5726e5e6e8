"""Implementations of the commands: they take settings and return a report or rows, and print nothing."""
