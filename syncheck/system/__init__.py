"""What the operating system gives: descriptors, files that are written whole or not at all, signals."""
