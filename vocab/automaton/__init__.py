"""The product of tokens and text, and its tables."""
