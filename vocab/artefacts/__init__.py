"""Compiled lists as files, on a node and shared."""
