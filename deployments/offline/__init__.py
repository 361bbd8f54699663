"""Batches without the service: files of rows, answered by engines of the run's own."""
