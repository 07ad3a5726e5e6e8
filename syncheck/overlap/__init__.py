"""Why work does not overlap: the order graph with times, its critical path, and what each edge of it costs."""
