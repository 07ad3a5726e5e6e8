"""The engine's verdict, reachability in a graph, and what schedules do, on random programs."""
