"""Mutated inputs of every kind: a few in each run of the test suite, or as many as fit in an hour with `make fuzz`."""
