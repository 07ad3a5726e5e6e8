"""The linter: interprets each function on the model of streams and events that the sanitizer checks."""
