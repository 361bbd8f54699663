"""Batches without the service: files of rows through engines of one's own."""
