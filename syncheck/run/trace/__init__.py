"""Recording and replay of the calls made on a monitor."""
