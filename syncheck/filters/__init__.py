"""Filters of a report: settings, comments, `syncheck.ignore` blocks and the baseline."""
