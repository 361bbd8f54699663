"""Bodies of requests: their models, the readers that check and assemble them, and the OpenAPI document."""
