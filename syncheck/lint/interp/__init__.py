"""Follows a program's source with values that are known only as far as the order of GPU work depends on them."""
