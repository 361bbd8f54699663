"""Searches over an engine."""
