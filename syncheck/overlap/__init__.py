"""Overlap analysis: the order graph with times, its critical path, and the cost of each edge."""
