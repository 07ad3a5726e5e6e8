"""Abstract interpreter of programs. Values are known only as far as the order of GPU work depends on them."""
