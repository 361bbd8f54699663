"""Tries of a vocabulary, and the weights of all its prefixes."""
