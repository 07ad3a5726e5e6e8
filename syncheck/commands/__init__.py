"""What each command does, given its settings: data in, a report or rows out; nothing is printed."""
