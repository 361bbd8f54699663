"""Exercises made from a text in the words of a list."""
