"""A process that compiles lists."""
