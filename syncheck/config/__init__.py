"""Settings: their declarations and their sources."""
