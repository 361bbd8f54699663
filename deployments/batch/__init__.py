"""Batches: files of requests that are answered while nobody waits, and whatever dies meanwhile."""
