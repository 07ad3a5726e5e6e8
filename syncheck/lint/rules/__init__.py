"""Rules that show in the shape of the source."""
