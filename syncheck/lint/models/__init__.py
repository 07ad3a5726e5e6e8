"""What functions and methods of libraries do, for the interpreter."""
