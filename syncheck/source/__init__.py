"""Source code of the program: stack frames, source lines, and the names that are visible on them."""
