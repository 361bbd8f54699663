"""The records of batches, and the contents of their files."""
