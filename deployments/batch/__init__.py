"""Batches: files of requests that are answered in the background, and survive the death of any process."""
