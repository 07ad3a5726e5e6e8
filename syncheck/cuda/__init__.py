"""Real GPUs: watches a program through torch's own callbacks, a dispatch mode and hooks on Python methods."""
