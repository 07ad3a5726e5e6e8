"""Rules of shape: one module a rule, named as its page in the catalogue; `syncheck.lint.rule_registry` finds them."""
