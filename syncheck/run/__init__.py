"""One run of a program: its processes, its backend, its trace, its report."""
