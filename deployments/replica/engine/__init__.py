"""The engine, its start, its lists and its watch."""
