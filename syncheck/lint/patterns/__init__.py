"""Mistakes that the syntax of a file shows, without following its paths: one module for each, see `context.Pattern`."""
