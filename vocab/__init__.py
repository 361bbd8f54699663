"""Texts made of the N most frequent words of a list: lists, surface forms, automata, matchers. No Ray, no HTTP."""
