"""The source of the program: frames that run, lines as they are shown, and the names that are visible in them."""
