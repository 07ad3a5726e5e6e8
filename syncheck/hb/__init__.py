"""Happens-before: clocks, shadow memory and memory pools; pure Python on integers, no torch."""
