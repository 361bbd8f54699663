"""Answers, whole and as streams."""
