"""Run batches: from the lines of a file to its answers."""
