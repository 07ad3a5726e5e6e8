"""The linter: runs each function in the mind, on the machine of streams and events that the sanitizer checks."""
