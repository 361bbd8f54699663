"""``make demo``: the service on this machine, with a small model."""
