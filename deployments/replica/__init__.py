"""The engine, and what stands around one request."""
