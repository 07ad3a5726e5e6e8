"""Mutated inputs of every kind: a few in each run of the suite, as many as an hour holds with `make fuzz`."""
