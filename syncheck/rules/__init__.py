"""The rule catalogue: what can be wrong, pure data."""
