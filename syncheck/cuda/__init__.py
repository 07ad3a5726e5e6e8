"""Backend for real GPUs: a dispatch mode, torch's own callbacks, and hooks on Python methods."""
