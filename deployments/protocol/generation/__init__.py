"""Requests for texts."""
