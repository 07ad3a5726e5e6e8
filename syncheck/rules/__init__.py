"""The rules, as pure data."""
