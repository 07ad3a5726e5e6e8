"""Compares the engine's verdict, graph reachability and the effects of schedules on random programs."""
