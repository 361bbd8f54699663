"""The vocabulary deployment and its compile processes."""
