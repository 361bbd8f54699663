"""Forwards of transformers' models over many prefixes: packed into one sequence, or padded."""
