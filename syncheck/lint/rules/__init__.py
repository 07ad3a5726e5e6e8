"""Syntactic rules: one module per rule, named like its page in the catalogue. See `syncheck.lint.rule_registry`."""
