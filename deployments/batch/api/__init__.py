"""Files, batches and jobs over HTTP."""
